#include "kvist/gateway/proxy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kvist/gateway/admission_fields.h"
#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/key_account.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/gateway/unread_body.h"
#include "kvist/gateway/worker_endpoint.h"
#include "kvist/openai/body_edit.h"
#include "kvist/openai/errors.h"
#include "kvist/routing/session_key.h"

namespace kvist::gateway {
namespace {

constexpr std::size_t kMostUnreadTokens = 4'096;

// Whether a worker has to run its model for it.
bool computes(const net::HttpRequest& request) {
  return request.method == "POST" && !request.path().ends_with("tokenize");
}

// Whether the error is a problem of the gateway itself, which a worker would not have with the prompt.
bool is_gateways_own(ErrorCode code) {
  return code == ErrorCode::kDeadlineExceeded || code == ErrorCode::kResourceExhausted ||
         code == ErrorCode::kUnavailable;
}

}  // namespace

void ProxyReport::add(const ProxyReport& other) {
  times.add(other.times);
  counters.pauses += other.counters.pauses;
  counters.unreadable_chunks += other.counters.unreadable_chunks;
  counters.unended_streams += other.counters.unended_streams;
  counters.error_frames += other.counters.error_frames;
  counters.exhaustions += other.counters.exhaustions;
  counters.idle_streams += other.counters.idle_streams;
  counters.keepalives += other.counters.keepalives;
  counters.late_errors += other.counters.late_errors;
  counters.moved_streams += other.counters.moved_streams;
  counters.moved_tokens += other.counters.moved_tokens;
  counters.move_gap.add(other.counters.move_gap);
  for (std::size_t i = 0; i < kMigrationRefusals; ++i) counters.unmoved_streams[i] += other.counters.unmoved_streams[i];
  for (const auto& [status, count] : other.refused) refused[status] += count;
  left_early += other.left_early;
  passed_on_unread += other.passed_on_unread;
  passed_on_others += other.passed_on_others;
  under_way += other.under_way;
  ReadingPool::add(pool, other.pool);
}

Proxy::Proxy(net::EventLoop& loop, const Options& options, net::HttpClient& client, RoutingChannel& channel,
             const PromptReader& reader, std::vector<spec::UpstreamSpec> workers)
    : reader_(&reader),
      workers_(std::move(workers)),
      pool_(loop, {.threads = options.reading_threads}),
      migration_(options.migration),
      parts_{.client = &client,
             .channel = &channel,
             .workers = &workers_,
             .counters = &counters_,
             .upstream_timeout = options.upstream_timeout,
             .fingerprints = std::vector<std::string>(workers_.size()),
             .recorder = options.recorder,
             .loop = &loop,
             .migration = &migration_,
             .times = &times_,
             .reporter = options.reporter},
      ids_(options.request_id_seed),
      credentials_(options.pass_client_keys ? Credentials::kPass : Credentials::kKeep),
      stream_idle_timeout_(options.stream_idle_timeout),
      stream_keepalive_(options.stream_keepalive),
      send_priority_(options.send_priority),
      stream_timer_(loop) {}

void Proxy::set_worker(WorkerId place, const spec::UpstreamSpec& worker, const net::ServerSettings& settings) {
  workers_.at(place.value()) = worker;
  parts_.fingerprints[place.value()].clear();
  times_.forget(place);
  parts_.client->set_server(worker.url, settings);
}

ProxyReport Proxy::report() const {
  return {.counters = counters_,
          .times = times_,
          .refused = refused_,
          .left_early = left_early_,
          .passed_on_unread = passed_on_unread_,
          .passed_on_others = passed_on_others_,
          .under_way = live_.size() + reading_ + starting_,
          .pool = pool_.counters()};
}

Proxy::ArrivalPointer Proxy::arrive(Api api, net::HttpRequest request,
                                    const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease) {
  std::string request_id = ids_.of(request.headers);
  const TimePoint now = net::now();
  std::unique_ptr<RequestReport> report;
  if (parts_.reporter != nullptr) report = parts_.reporter->begin(request, now);
  if (report) {
    report->request_id = request_id;
    if (lease.account() != nullptr) report->key = lease.account()->name();
  }
  auto arrival =
      std::make_shared<Arrival>(api, std::move(request), exchange, std::move(request_id), now, std::move(lease));
  arrival->report = std::move(report);
  return arrival;
}

void Proxy::handle(Api api, net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
                   KeyLease lease, std::shared_ptr<Carrier> carrier) {
  const ArrivalPointer arrival = arrive(api, std::move(request), exchange, std::move(lease));
  arrival->carrier = std::move(carrier);
  if (const auto room = check_room(); !room) return refuse(*arrival, room.error());
  if (!parts_.channel->has_room()) return admit_unasked(arrival);
  if (arrival->request.body.size() <= (reader_->is_slow() ? kTokenizedOnLoopBytes : kReadOnLoopBytes))
    return on_read(arrival,
                   prepare(*reader_, api, arrival->request.body, readings_, arrival->lease.account() != nullptr));
  read_on_pool(arrival, [this, arrival, readings = readings_]() -> std::function<void()> {
    Result<PreparedRequest> read = fail(ErrorCode::kDeadlineExceeded, "the gateway had no time to read the prompt");
    const bool has_key = arrival->lease.account() != nullptr;
    if (is_wanted(*arrival)) read = prepare(*reader_, arrival->api, arrival->request.body, readings, has_key);
    return [this, arrival, result = std::move(read)]() mutable { on_read(arrival, std::move(result)); };
  });
}

// The dispatcher counts the refusal and words it; or there is room again by now.
void Proxy::admit_unasked(const ArrivalPointer& arrival) {
  begin_unread(arrival, {}, RequestKind::kUnread);
}

Result<void> Proxy::check_room() const {
  if (draining_) return fail(ErrorCode::kUnavailable, "the gateway is shutting down");
  return {};
}

bool Proxy::is_wanted(const Arrival& arrival) {
  return net::now() < arrival.arrived + kMaxReadingWait && !*arrival.client_left;
}

void Proxy::read_on_pool(const ArrivalPointer& arrival, ReadingPool::Work read) {
  arrival->exchange->on_client_gone([weak = std::weak_ptr<Arrival>(arrival)] {
    if (const auto left = weak.lock()) *left->client_left = true;
  });
  ReadingPool::Work work = [this, call = std::move(read)]() mutable -> std::function<void()> {
    std::function<void()> then = call();
    call = nullptr;
    return [this, go_on = std::move(then)] {
      --reading_;
      go_on();
      look_whether_idle();
    };
  };
  if (pool_.submit(std::move(work), arrival->request.body.size())) {
    ++reading_;
  } else {
    refuse(*arrival, {ErrorCode::kResourceExhausted, "too many prompts wait to be read; try again later"});
  }
}

void Proxy::on_read(const ArrivalPointer& arrival, Result<PreparedRequest> read) {
  if (*arrival->client_left) return note_left(*arrival);
  if (!read && is_gateways_own(read.error().code)) return refuse(*arrival, read.error());
  if (broken_off_) return refuse(*arrival, {ErrorCode::kUnavailable, "the gateway is shutting down"});
  if (!read) return admit_unread(arrival, RequestKind::kUnread);
  admit(arrival, *std::move(read));
}

void Proxy::pass_on(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease,
                    std::shared_ptr<Carrier> carrier) {
  const ArrivalPointer arrival = arrive(Api::kChat, std::move(request), exchange, std::move(lease));
  arrival->carrier = std::move(carrier);
  if (const auto room = check_room(); !room) return refuse(*arrival, room.error());
  admit_unread(arrival, RequestKind::kOther);
}

void Proxy::turn_away(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease,
                      const Error& error) {
  refuse(*arrive(Api::kChat, std::move(request), exchange, std::move(lease)), error);
}

void Proxy::note_left(Arrival& arrival) {
  ++left_early_;
  arrival.lease.used(0);
  report_early_end(arrival, 0, dispatch::Outcome::kClientGone);
}

void Proxy::report_early_end(Arrival& arrival, int status, dispatch::Outcome outcome) {
  if (!arrival.report) return;
  arrival.report->ended = net::now();
  arrival.report->status = status;
  arrival.report->outcome = to_string(outcome);
  parts_.reporter->end(std::move(arrival.report));
}

void Proxy::refuse(Arrival& arrival, const Error& error, dispatch::Outcome outcome, Duration retry_after) {
  const int status = openai::http_status(error.code);
  ++refused_[status];
  arrival.lease.used(0);
  const bool is_late = arrival.job.kept.begun();
  report_early_end(arrival, is_late ? KeptStream::kStatus : status, outcome);
  net::HttpResponse answer = error_answer(error, arrival.request_id, retry_after);
  if (!is_late) return arrival.exchange->respond(std::move(answer));
  if (KeptStream::answer(*arrival.exchange, answer)) ++counters_.late_errors;
}

void Proxy::admit(const ArrivalPointer& arrival, PreparedRequest prepared) {
  ReadRequest& read = prepared.read;
  read.profile.streams = read.options.stream;
  read.profile.choices = read.options.best_of;
  if (prepared.body && !arrival->carrier) arrival->request.body = *std::move(prepared.body);
  ProxyJob job{.usage_wanted = arrival->carrier || prepared.usage_wanted,
               .streams = read.options.stream,
               .prediction_is_whole = read.prompts == 1,
               .choices = read.options.best_of,
               .adapter = read.profile.adapter,
               .prompt_tokens = read.prompts == 1 ? read.profile.prompt_tokens : 0};
  begin(arrival, std::move(read.profile), std::move(job),
        {.is_plain = !read.options.priority_is_odd, .value = read.options.priority});
}

void Proxy::admit_unread(const ArrivalPointer& arrival, RequestKind kind) {
  ++(kind == RequestKind::kUnread ? passed_on_unread_ : passed_on_others_);
  // The length of its prompt is not known, but it is a load for its worker all the same.
  const std::size_t tokens = std::min(arrival->request.body.size() / kBytesPerToken, kMostUnreadTokens);
  dispatch::RequestProfile profile;
  profile.prompt_tokens = static_cast<std::uint32_t>(tokens);
  profile.generates = kind != RequestKind::kOther || computes(arrival->request);
  profile.repeatable = !ProxyJob::has_effects(kind, arrival->request);
  begin_unread(arrival, std::move(profile), kind);
}

void Proxy::begin_unread(const ArrivalPointer& arrival, dispatch::RequestProfile profile, RequestKind kind) {
  if (arrival->request.body.size() <= kReadOnLoopBytes)
    return on_settled(arrival, std::move(profile), kind, settle(*arrival, kind, readings_));
  read_on_pool(arrival, [this, arrival, kind, readings = readings_, known = std::move(profile)] {
    Result<UnreadBody> unread = fail(ErrorCode::kDeadlineExceeded, "the gateway had no time to read the request");
    if (is_wanted(*arrival)) unread = settle(*arrival, kind, readings);
    return [this, arrival, kind, known, result = std::move(unread)]() mutable {
      on_settled(arrival, std::move(known), kind, std::move(result));
    };
  });
}

Result<UnreadBody> Proxy::settle(Arrival& arrival, RequestKind kind, const FleetReadings& readings) const {
  const bool has_key = arrival.lease.account() != nullptr;
  if (!arrival.carrier) {
    auto known = settle_unread(arrival.request, *reader_, readings, has_key);
    if (known && has_key && kind == RequestKind::kUnread) known->usage_added = ask_for_usage(arrival.request);
    return known;
  }
  // What a carrier takes to the worker stays as the client sent it.
  net::HttpRequest copy = arrival.request;
  return settle_unread(copy, *reader_, readings, has_key);
}

void Proxy::on_settled(const ArrivalPointer& arrival, dispatch::RequestProfile profile, RequestKind kind,
                       Result<UnreadBody> unread) {
  if (*arrival->client_left) return note_left(*arrival);
  if (!unread) return refuse(*arrival, unread.error());
  if (broken_off_) return refuse(*arrival, {ErrorCode::kUnavailable, "the gateway is shutting down"});
  profile.blocks = std::make_shared<const std::vector<kv::BlockHash>>();
  profile.adapter = unread->adapter;
  ProxyJob job{.kind = kind,
               .usage_wanted = !unread->usage_added,
               .prediction_is_whole = false,
               .adapter = std::move(unread->adapter)};
  begin(arrival, std::move(profile), std::move(job), unread->priority);
}

void Proxy::begin(const ArrivalPointer& arrival, dispatch::RequestProfile profile, ProxyJob job,
                  const openai::AskedPriority& asked) {
  if (const auto session = arrival->request.headers.find(kSessionHeader); session && !session->empty()) {
    profile.session = routing::session_key(*session);
  }
  auto admission = read_admission_fields(arrival->request, asked.value, arrival->lease.account());
  if (!admission) return refuse(*arrival, admission.error());
  profile.admission = *std::move(admission);
  if (arrival->carrier) {
    heed(*arrival->carrier, profile);
  } else if (const auto named = name_priority(*arrival, job.kind, asked, profile.admission.priority); !named) {
    return refuse(*arrival, named.error());
  }
  profile.deadline = arrival->arrived + parts_.upstream_timeout;
  profile.name = arrival->request_id;
  if (job.kind == RequestKind::kRead) job.record = record_of(*arrival, profile);
  arrival->asked = net::now();
  if (arrival->report) {
    RequestReport& report = *arrival->report;
    report.asked = arrival->asked;
    report.streams = profile.streams;
    if (job.kind == RequestKind::kRead) report.prompt_tokens = profile.prompt_tokens;
    if (job.kind == RequestKind::kRead) report.model = job.adapter.empty() ? reader_->model() : job.adapter;
  }
  arrival->job = std::move(job);
  ++starting_;
  parts_.channel->start(std::move(profile), arrival->client_left, [this, arrival](const dispatch::Started& ticket) {
    arrival->answered = true;
    --starting_;
    held_.erase(arrival);
    on_started(*arrival, ticket);
    look_whether_idle();
  });
  if (arrival->answered) return;
  // While the arrival lives, the channel has it, and is there too.
  arrival->exchange->on_client_gone([weak = std::weak_ptr<Arrival>(arrival), channel = parts_.channel] {
    const auto left = weak.lock();
    if (!left) return;
    *left->client_left = true;
    channel->on_left(left->client_left);
  });
  const ProxyJob& asking = arrival->job;
  if (stream_keepalive_ == Duration(0) || asking.kind != RequestKind::kRead || !asking.streams) return;
  held_.insert(arrival);
  watch_streams();
}

void Proxy::heed(const Carrier& carrier, dispatch::RequestProfile& profile) const {
  profile.carried = true;
  profile.fallbacks = carrier.fallbacks();
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].url.empty()) continue;  // a vacant place
    const auto endpoint = worker_endpoint(workers_[i].url);
    if (!endpoint || !carrier.may_use(*endpoint)) profile.excluded.emplace_back(i);
  }
}

// A client cannot have at the worker what its key does not allow here. Where it said nothing, the worker may not know
// the field.
Result<void> Proxy::name_priority(Arrival& arrival, RequestKind kind, const openai::AskedPriority& asked,
                                  std::int32_t counts) const {
  const bool has_key = arrival.lease.account() != nullptr;
  const bool is_named = asked.value != 0 || !asked.is_plain;
  const bool differs = asked.value != counts || (!asked.is_plain && has_key);
  if (!differs || !(is_named || (send_priority_ && kind != RequestKind::kOther))) return {};
  Result<std::string> body = openai::with_priority(arrival.request.body, counts);
  // What nobody can read has no priority, and gets none.
  if (!body && kind != RequestKind::kRead) return {};
  KVIST_TRY(arrival.request.body, std::move(body));
  return {};
}

std::unique_ptr<TrafficRecord> Proxy::record_of(const Arrival& arrival, const dispatch::RequestProfile& profile) const {
  if (parts_.recorder == nullptr) return nullptr;
  return std::make_unique<TrafficRecord>(TrafficRecord{.arrived = arrival.arrived,
                                                       .prompt_tokens = profile.prompt_tokens,
                                                       .blocks = profile.blocks,
                                                       .session = profile.session,
                                                       .streams = profile.streams});
}

void Proxy::note_routed(Arrival& arrival, const dispatch::Ticket& ticket) {
  const TimePoint now = net::now();
  if (arrival.job.kind == RequestKind::kRead) {
    RequestTimes& times = times_.of(arrival.lease.key_class(), ticket.decision.worker);
    times.routing.observe(now - arrival.asked - ticket.held);
    times.predicted_wait.observe(from_milliseconds(ticket.decision.forecast_wait_ms));
  }
  if (!arrival.report) return;
  arrival.report->decided = now;
  arrival.job.report = std::move(arrival.report);
}

void Proxy::on_started(Arrival& arrival, const dispatch::Started& ticket) {
  if (!ticket) {
    const dispatch::Refusal& refusal = ticket.error();
    if (arrival.job.record) {
      arrival.job.record->ended = net::now();
      arrival.job.record->outcome = refusal.outcome;
      parts_.recorder->add(std::move(*arrival.job.record));
    }
    if (!*arrival.client_left) return refuse(arrival, refusal, refusal.outcome, refusal.retry_after);
    arrival.lease.used(0);
    return report_early_end(arrival, 0, refusal.outcome);
  }
  if (*arrival.client_left) {
    arrival.lease.used(0);
    report_early_end(arrival, 0, dispatch::Outcome::kClientGone);
    return parts_.channel->finish(ticket->handle, dispatch::Outcome::kClientGone);
  }
  note_routed(arrival, *ticket);
  net::HttpRequest& request = arrival.request;
  if (request.method == "HEAD") request.method = "GET";  // the server leaves the body out
  request.headers = headers_for_worker(std::move(request.headers), arrival.request_id, credentials_);
  ProxyJob job = std::move(arrival.job);
  job.lease = std::move(arrival.lease);
  job.request = std::move(request);
  job.exchange = std::move(arrival.exchange);
  job.carrier = std::move(arrival.carrier);
  job.request_id = std::move(arrival.request_id);
  job.arrived = arrival.arrived;
  auto proxied = std::make_shared<ProxiedRequest>(
      parts_, std::move(job), ticket->handle,
      [this](const ProxiedRequest& over, dispatch::Outcome outcome) { on_over(over, outcome); });
  live_.emplace(proxied.get(), proxied);
  watch_streams();
  proxied->start(ticket->decision);
  if (broken_off_) proxied->break_off({ErrorCode::kUnavailable, "the gateway is shutting down"});
}

void Proxy::on_over(const ProxiedRequest& request, dispatch::Outcome outcome) {
  parts_.channel->finish(request.handle(), outcome);
  live_.erase(&request);
  look_whether_idle();
}

void Proxy::look_whether_idle() {
  if (live_.empty() && reading_ == 0 && starting_ == 0 && idle_) std::exchange(idle_, nullptr)();
}

void Proxy::drain(std::function<void()> idle) {
  draining_ = true;
  idle_ = std::move(idle);
  look_whether_idle();
}

std::vector<std::shared_ptr<ProxiedRequest>> Proxy::live() const {
  std::vector<std::shared_ptr<ProxiedRequest>> all;
  all.reserve(live_.size());
  for (const auto& [address, request] : live_) all.push_back(request);
  return all;
}

void Proxy::break_off_all() {
  broken_off_ = true;
  for (const auto& request : live()) request->break_off({ErrorCode::kUnavailable, "the gateway is shutting down"});
}

void Proxy::on_worker_stalled(WorkerId worker) {
  for (const auto& request : live()) request->on_worker_stalled(worker, dispatch::AttemptFailure::kStalled);
}

void Proxy::on_worker_silent(const std::vector<dispatch::Dispatcher::Findings::Leaving>& leaving) {
  for (const auto& request : live()) {
    const auto found = std::ranges::find(leaving, request->handle(), &dispatch::Dispatcher::Findings::Leaving::request);
    if (found != leaving.end()) request->on_worker_stalled(found->worker, dispatch::AttemptFailure::kSilent);
  }
}

void Proxy::watch_streams() {
  const bool any = stream_idle_timeout_ > Duration(0) || stream_keepalive_ > Duration(0);
  if (!any || std::exchange(watching_, true)) return;
  Duration shortest = stream_idle_timeout_ > Duration(0) ? stream_idle_timeout_ : stream_keepalive_;
  if (stream_keepalive_ > Duration(0)) shortest = std::min(shortest, stream_keepalive_);
  const Duration period =
      std::clamp(shortest / 4, Duration(std::chrono::milliseconds(10)), Duration(std::chrono::seconds(1)));
  stream_timer_.arm(net::now() + period, [this] {
    watching_ = false;
    const TimePoint now = net::now();
    keep_held_alive(now);
    for (const auto& request : live()) {
      if (stream_keepalive_ > Duration(0)) request->keep_alive(now, stream_keepalive_);
      if (stream_idle_timeout_ > Duration(0)) request->check_idle(now, stream_idle_timeout_);
    }
    if (!live_.empty() || !held_.empty()) watch_streams();
  });
}

void Proxy::keep_held_alive(TimePoint now) {
  for (const ArrivalPointer& arrival : held_) {
    KeptStream& kept = arrival->job.kept;
    if (*arrival->client_left || !kept.is_due(*arrival->exchange, arrival->arrived, now, stream_keepalive_)) continue;
    (void)kept.send_comment(*arrival->exchange, arrival->request_id, now);
    ++counters_.keepalives;
  }
}

void Proxy::on_worker_removed(WorkerId worker) {
  for (const auto& request : live()) request->on_worker_removed(worker);
}

void Proxy::on_worker_lost(WorkerId worker) {
  for (const auto& request : live()) request->on_worker_lost(worker);
}

}  // namespace kvist::gateway
