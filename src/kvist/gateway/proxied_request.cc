#include "kvist/gateway/proxied_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/key_account.h"
#include "kvist/gateway/passed_on_paths.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/gateway/worker_endpoint.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/media_type.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/errors.h"
#include "kvist/openai/resumption.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

using dispatch::Outcome;

/// The bound of an answer that is not a stream.
constexpr std::size_t kMaxWholeAnswerBytes = 64U << 20;

bool is_event_stream(const net::Headers& headers) {
  return net::has_media_type(headers, "text/event-stream");
}

/// The bound up to which an answer of known length is collected, so that the client gets its length too.
constexpr std::uint64_t kMaxCollectedBytes = 1U << 20;

bool is_short(const net::Headers& headers) {
  const std::string_view text = headers.find("Content-Length").value_or("");
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  return error == std::errc{} && !text.empty() && end == text.data() + text.size() && length <= kMaxCollectedBytes;
}

dispatch::RequestScope scope_of(const ProxyJob& job) {
  switch (job.kind) {
    case RequestKind::kRead:
      return job.adapter.empty() ? dispatch::RequestScope::kOwnModel : dispatch::RequestScope::kAdapter;
    case RequestKind::kUnread:
      return job.adapter.empty() ? dispatch::RequestScope::kGeneration : dispatch::RequestScope::kAdapter;
    case RequestKind::kOther:
      if (only_computes(job.request.path())) return dispatch::RequestScope::kComputed;
      return dispatch::RequestScope::kOther;
  }
  return dispatch::RequestScope::kOther;
}

}  // namespace

// A completion may be computed twice, and so may embeddings. What other requests do at a worker is not known (a batch,
// a file, a stored response), except for those that only read.
bool ProxyJob::has_effects(RequestKind kind, const net::HttpRequest& request) {
  const std::string& method = request.method;
  return kind == RequestKind::kOther && method != "GET" && method != "HEAD" && method != "OPTIONS" &&
         !only_computes(request.path());
}

ProxiedRequest::ProxiedRequest(ProxyParts& parts, ProxyJob job, dispatch::DispatchHandle request,
                               std::function<void(ProxiedRequest&, Outcome)> on_over)
    : parts_(&parts),
      job_(std::move(job)),
      request_(request),
      on_over_(std::move(on_over)),
      resumable_(*parts.migration, job_.kind == RequestKind::kRead && job_.streams && !job_.carrier,
                 job_.request.body.size()),
      life_(job_.arrived + parts.upstream_timeout, !job_.has_effects(), scope_of(job_)),
      relay_(job_.usage_wanted) {
  job_.request.only_once = job_.has_effects();
  if (resumable_.asks()) job_.request.headers.add(std::string(openai::kResumableHeader), "0");
  to_send_ = std::make_shared<const net::HttpRequest>(std::move(job_.request));
}

void ProxiedRequest::start(const routing::Decision& decision) {
  job_.exchange->on_client_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_client_gone();
  });
  if (job_.carrier) {
    job_.carrier->on_served_by([weak = weak_from_this()](std::string_view endpoint) {
      if (const auto self = weak.lock()) self->on_served_by(endpoint);
    });
  }
  if (job_.kept.begun()) on_early_head();
  act(life_.on_routed(decision));
}

void ProxiedRequest::act(const dispatch::LifeActions& actions) {
  if (job_.report) report_failure(actions);
  if (actions.asks()) return ask(actions);
  if (actions.report != dispatch::LifeReport::kNothing) parts_->channel->on_trouble(request_, actions);
  carry_out(actions);
}

void ProxiedRequest::update_resumable() {
  life_.set_resumable(resumable_.refusal() ? std::nullopt : std::optional(resumable_.tokens()));
}

void ProxiedRequest::ask(const dispatch::LifeActions& actions) {
  asking_ = true;
  if (life_.attempt_begun()) lost_at_ = net::now();
  if (actions.abandon) {
    call_.reset();
  } else if (call_) {
    call_->pause();
  }
  if (actions.doubt) parts_->channel->doubt(*actions.doubt);
  parts_->channel->reroute(request_, actions,
                           [weak = weak_from_this()](const std::optional<routing::Decision>& decision) {
                             if (const auto self = weak.lock()) self->on_rerouted(decision);
                           });
}

void ProxiedRequest::on_rerouted(const std::optional<routing::Decision>& decision) {
  asking_ = false;
  const auto held = std::exchange(held_error_, std::nullopt);
  if (!decision && !life_.begun()) relay_.release_error(events_);
  act(life_.on_rerouted(decision));
  if (!decision && job_.report && life_.counts()) report_stays();
  if (decision || asking_ || life_.is_over()) return;
  if (held) return on_error(*held);
  if (ended_) return end_whole(nullptr);
  // A call that could not be made was due while the answer was outstanding.
  if (!call_) return call_again(dispatch::RequestLife::kExhaustedPause);
  if (!paused_) call_->resume();
}

void ProxiedRequest::carry_out(const dispatch::LifeActions& actions) {
  if (actions.abandon) call_.reset();
  if (actions.doubt) parts_->channel->doubt(*actions.doubt);
  if (actions.attempt) attempt(*actions.attempt);
  if (actions.again_in > Duration(0)) call_again(actions.again_in);
  switch (actions.answer) {
    case dispatch::LifeAnswer::kPassOn:
      pass_on();
      break;
    case dispatch::LifeAnswer::kError:
      client_status_ = openai::http_status(actions.error.code);
      respond(error_answer(actions.error, job_.request_id));
      break;
    case dispatch::LifeAnswer::kBreakOff:
      if (actions.over == Outcome::kBrokenStream && !broken_off_) note_broken();
      break_stream(actions.error);
      break;
    case dispatch::LifeAnswer::kNothing:
    case dispatch::LifeAnswer::kEnd:
      break;
  }
  if (actions.over) over(*actions.over);
}

void ProxiedRequest::attempt(const routing::Decision& decision) {
  body_.clear();
  events_.clear();
  meter_.reset();
  head_taken_ = false;
  sent_ = false;
  ended_ = false;
  held_error_.reset();
  if (life_.begun()) read_at_ = net::now();
  // The dispatcher takes a new attempt for one whose answer is read.
  paused_ = false;
  if (!life_.begun()) resumable_.log().clear();
  relay_ = AnswerRelay(job_.usage_wanted, parts_->fingerprints[decision.worker.value()]);
  if (job_.lease.account() != nullptr) relay_.measure_text();
  if (job_.kind == RequestKind::kRead) times_ = &parts_->times->of(job_.lease.key_class(), decision.worker);
  if (job_.report) report_attempt(decision);
  call();
}

void ProxiedRequest::call() {
  if (job_.carrier) return have_carried();
  std::shared_ptr<const net::HttpRequest> request = to_send_;
  if (life_.begun()) {
    request = std::make_shared<const net::HttpRequest>(resumable_.continuation(*to_send_));
    resumed_tokens_ = resumable_.tokens();
  }
  if (job_.report) request = traced(std::move(request));
  call_ = parts_->client->start(worker().url, std::move(request), life_.time_left(net::now()), handlers());
}

// Within an answer a carrier leaves in the same way when its client has left and when the worker has failed.
void ProxiedRequest::on_client_gone() {
  if (job_.carrier && status_ != 0 && life_.counts()) parts_->channel->doubt(life_.decision().worker);
  act(life_.on_client_gone());
}

void ProxiedRequest::have_carried() {
  std::vector<std::string> endpoints;
  const auto name = [&](WorkerId id) {
    if (auto endpoint = worker_endpoint((*parts_->workers)[id.value()].url)) endpoints.push_back(*std::move(endpoint));
  };
  name(life_.decision().worker);
  for (const WorkerId fallback : life_.decision().fallbacks) name(fallback);
  // A worker whose place was taken by another one between the decision and its arrival here has an address, too.
  KVIST_CHECK(!endpoints.empty(), "a carrier's request goes to workers with addresses only");
  sent_ = true;
  call_ = job_.carrier->carry(endpoints, to_send_, life_.time_left(net::now()), handlers());
}

void ProxiedRequest::on_served_by(std::string_view endpoint) {
  for (std::uint32_t i = 0; i < parts_->workers->size(); ++i) {
    const std::string& url = (*parts_->workers)[i].url;
    if (url.empty()) continue;
    const auto known = worker_endpoint(url);
    if (known && *known == endpoint) return act(life_.on_served_by(WorkerId(i)));
  }
  telemetry::log_warning("proxy",
                         fmt::format("request {}: served by {}, which is none of the workers: the proxy's list "
                                     "of endpoints and kvist's differ",
                                     job_.request_id, endpoint));
}

void ProxiedRequest::call_again(Duration in) {
  call_.reset();
  if (!again_) again_ = std::make_unique<net::Timer>(*parts_->loop);
  again_->arm(net::now() + in, [weak = weak_from_this()] {
    const auto self = weak.lock();
    // The request may have ended or gone to another worker in the meantime.
    if (self && !self->life_.is_over() && !self->asking_ && !self->call_) self->call();
  });
}

const spec::UpstreamSpec& ProxiedRequest::worker() const {
  return (*parts_->workers)[life_.decision().worker.value()];
}

// The call is this object's and ends with it, so the handlers need not ask whether it is still there, and a plain
// pointer takes no memory of its own. A handler may end the request, so each keeps it until it returns.
net::CallHandlers ProxiedRequest::handlers() {
  return {.on_sent = [this](TimePoint) { sent_ = true; },
          .on_head =
              [this](int status, net::Headers headers) {
                const auto self = shared_from_this();
                on_head(status, std::move(headers));
              },
          .on_body =
              [this](std::string_view data, TimePoint at) {
                const auto self = shared_from_this();
                on_body(data, at);
              },
          .on_end =
              [this](const net::CallTimes& /*times*/) {
                const auto self = shared_from_this();
                on_end();
              },
          .on_error =
              [this](const Error& error, bool /*answered*/) {
                const auto self = shared_from_this();
                on_error(error);
              }};
}

void ProxiedRequest::on_head(int status, net::Headers headers) {
  if (dispatch::failure_of_status(status) == dispatch::AttemptFailure::kServerError)
    telemetry::log_warning("proxy", fmt::format("request {} at {}: status {}", job_.request_id, worker().name, status));
  const bool is_resumable =
      status == 200 && is_event_stream(headers) && resumable_.on_head(headers.find(openai::kResumableHeader));
  update_resumable();
  if (life_.begun() && status == 200 && !is_resumable) return act(life_.on_not_resumed());
  if (is_resumable) relay_.expect_notes(resumable_.log());
  status_ = status;
  if (job_.report) job_.report->attempts.back().status = status;
  headers_ = std::move(headers);
  act(life_.on_status(status));
}

void ProxiedRequest::pass_on() {
  if (!std::exchange(head_taken_, true)) take_head();
  if (!events_.empty()) send_events(std::exchange(events_, {}));
}

void ProxiedRequest::take_head() {
  is_events_ = is_event_stream(headers_);
  if (life_.begun()) return;  // the client has a head
  const bool is_collected = is_short(headers_);
  if (job_.kind == RequestKind::kOther && !is_collected && job_.lease.account() != nullptr)
    meter_ = std::make_unique<AnswerMeter>(headers_);
  headers_ = headers_for_client(std::move(headers_), job_.request_id, worker().url);
  headers_.set(kWorkerHeader, worker().name);
  if (job_.kind == RequestKind::kRead)
    headers_.set(kPredictedCachedTokensHeader, std::to_string(life_.decision().predicted_cached_tokens));
  if (job_.kind == RequestKind::kOther) {
    form_ = is_collected ? Form::kWhole : Form::kBytes;
  } else {
    form_ = status_ < 300 && is_events_ ? Form::kEvents : Form::kWhole;
  }
}

void ProxiedRequest::on_body(std::string_view data, TimePoint at) {
  read_at_ = at;
  if (form_ == Form::kEvents) return relay(data, at);
  if (form_ == Form::kBytes) {
    if (meter_) meter_->feed(data);
    return pass_on_bytes(data);
  }
  if (body_.size() + data.size() > kMaxWholeAnswerBytes) {
    on_too_large(fmt::format("the worker's answer is larger than {} bytes", kMaxWholeAnswerBytes));
    return;
  }
  body_ += data;
}

void ProxiedRequest::on_end() {
  if (form_ == Form::kWhole) {
    ended_ = true;
    call_.reset();  // there is nothing to abort
    return take_whole();
  }
  end_stream();
}

void ProxiedRequest::report_usage(const openai::Usage& usage) {
  if (job_.kind != RequestKind::kRead || !job_.prediction_is_whole) return;
  // An answer without cached tokens is no evidence against the prediction.
  if (usage.reports_cached_tokens)
    parts_->channel->on_usage(life_.decision().request, usage.prompt_tokens, usage.cached_tokens);
}

// Several answers to one prompt are generated in parallel, so their mean length is the number of steps.
void ProxiedRequest::report_whole(const openai::Usage& usage) {
  routing::WholeAnswer answer{.tokens = usage.completion_tokens / std::max(1U, job_.choices),
                              .prompt_tokens = usage.prompt_tokens};
  if (usage.reports_cached_tokens) answer.cached_tokens = usage.cached_tokens;
  parts_->channel->on_whole_answer(life_.decision().request, answer);
}

void ProxiedRequest::take_whole() {
  const bool is_other = job_.kind == RequestKind::kOther;
  const bool is_read = !is_other || job_.lease.account() != nullptr;
  if (status_ >= 300 || !is_read || !life_.counts()) return end_whole(nullptr);
  const auto answer = openai::parse_chunk(body_);
  if (is_other) return end_whole(answer ? &*answer : nullptr);
  if (!answer && answer.error().code != ErrorCode::kTooLarge) {
    note_garbage(fmt::format("an answer that is none of this API: {}", answer.error().message));
  } else if (answer && answer->error && (answer->error_status < 400 || answer->error_status >= 500)) {
    note_garbage(fmt::format("status {} with an error: {}", status_, *answer->error));
  } else {
    end_whole(answer ? &*answer : nullptr);
  }
}

void ProxiedRequest::end_whole(const openai::ChunkView* answer) {
  if (answer != nullptr && answer->usage)
    job_.lease.used(std::uint64_t{answer->usage->prompt_tokens} + answer->usage->completion_tokens);
  if (answer != nullptr && job_.kind == RequestKind::kRead) {
    if (answer->usage) {
      if (job_.prediction_is_whole) report_whole(*answer->usage);
      report_usage(*answer->usage);
      write_down(*answer->usage);
    }
    if (!answer->system_fingerprint.empty())
      parts_->fingerprints[life_.decision().worker.value()] = answer->system_fingerprint;
  }
  client_status_ = status_;
  respond({.status = status_, .headers = std::move(headers_), .body = std::move(body_)});
  act(life_.on_ended());
}

void ProxiedRequest::on_error(const Error& error) {
  if (asking_) {
    held_error_ = error;
    return;
  }
  if (error.code == ErrorCode::kResourceExhausted) {
    ++parts_->counters->exhaustions;
    if (parts_->exhaustion_warning.pass(net::now()))
      telemetry::log_error("proxy", fmt::format("no socket for a call to {}, and for {} calls before: {}",
                                                worker().name, parts_->exhaustion_warning.suppressed(), error.message));
    return act(life_.on_exhausted());
  }
  telemetry::log_warning("proxy", fmt::format("request {} at {}: {}", job_.request_id, worker().name, error.message));
  // After [DONE] the client has the whole answer, so the error does not matter.
  if (life_.begun() && relay_.is_done()) return end_stream();
  update_resumable();
  act(life_.on_lost(error.code == ErrorCode::kDeadlineExceeded, error.message, sent_));
}

void ProxiedRequest::on_too_large(const std::string& what) {
  telemetry::log_warning("proxy", fmt::format("request {} at {}: {}", job_.request_id, worker().name, what));
  act(life_.on_too_large(what));
}

void ProxiedRequest::break_off(const Error& error) {
  broken_off_ = true;
  act(life_.on_shutdown(error));
}

void ProxiedRequest::on_worker_stalled(WorkerId worker, dispatch::AttemptFailure how) {
  update_resumable();
  act(life_.on_worker_stalled(worker, how));
}

void ProxiedRequest::check_idle(TimePoint now, Duration timeout) {
  // While another worker is asked for, it was counted already.
  if (!life_.begun() || paused_ || asking_ || life_.is_over() || now - read_at_ <= timeout) return;
  if (relay_.is_done()) return end_stream();
  telemetry::log_warning("proxy",
                         fmt::format("request {} at {}: its answer stands still", job_.request_id, worker().name));
  ++parts_->counters->idle_streams;
  update_resumable();
  act(life_.on_idle());
}

void ProxiedRequest::on_worker_lost(WorkerId worker) {
  if (life_.begun() && relay_.is_done() && worker == life_.decision().worker) return end_stream();
  update_resumable();
  act(life_.on_worker_lost(worker, sent_));
}

void ProxiedRequest::on_worker_removed(WorkerId worker) {
  if (life_.begun() && relay_.is_done() && worker == life_.decision().worker) return end_stream();
  update_resumable();
  act(life_.on_worker_removed(worker, sent_));
}

void ProxiedRequest::write_down(const openai::Usage& usage) {
  if (job_.report) {
    job_.report->prompt_tokens = usage.prompt_tokens;
    job_.report->output_tokens = usage.completion_tokens;
    if (usage.reports_cached_tokens) job_.report->cached_tokens = usage.cached_tokens;
  }
  if (!job_.record) return;
  job_.record->output_tokens = usage.completion_tokens / std::max(1U, job_.choices);
  if (usage.reports_cached_tokens) job_.record->cached_tokens = usage.cached_tokens;
}

void ProxiedRequest::write_down_end(Outcome outcome) {
  const StreamState& state = relay_.state();
  if (state.usage) write_down(*state.usage);
  if (!job_.record) return;
  TrafficRecord& record = *job_.record;
  record.output_tokens = std::max(record.output_tokens, static_cast<std::uint32_t>(resumed_tokens_ + state.tokens));
  if (state.usage) write_down(*state.usage);
  record.worker = worker().name;
  record.mode = life_.decision().mode;
  record.outcome = outcome;
  record.ended = net::now();
  parts_->recorder->add(std::move(record));
}

void ProxiedRequest::charge(Outcome outcome) {
  if (job_.lease.account() == nullptr) return;
  const std::optional<openai::Usage> usage = meter_ ? meter_->usage() : relay_.state().usage;
  if (usage) return job_.lease.used(std::uint64_t{usage->prompt_tokens} + usage->completion_tokens);
  // Those before the present attempt are other workers'.
  const std::uint64_t relayed =
      std::max(resumed_tokens_ + relay_.state().least_tokens(), std::uint64_t{resumable_.tokens()});
  const std::uint64_t tokens = meter_ ? meter_->tokens() : relayed;
  if (outcome == Outcome::kRefused || outcome == Outcome::kBackPressure) return job_.lease.used(0);
  if (outcome == Outcome::kClientGone || tokens > 0) job_.lease.answered(job_.prompt_tokens, tokens);
}

void ProxiedRequest::over(Outcome outcome) {
  call_.reset();  // aborts an unfinished call, which frees the worker's batch slot
  charge(outcome);
  write_down_end(outcome);
  report_end(outcome);
  job_.exchange.reset();
  on_over_(*this, outcome);
}

}  // namespace kvist::gateway
