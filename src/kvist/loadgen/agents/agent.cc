#include "kvist/loadgen/agents/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "kvist/base/version.h"
#include "kvist/loadgen/agents/feed_page.h"
#include "kvist/loadgen/agents/file_store.h"
#include "kvist/loadgen/agents/sample_page.h"
#include "kvist/loadgen/json_answers.h"
#include "kvist/loadgen/threaded_load.h"
#include "kvist/net/admin_listener.h"
#include "kvist/net/path_table.h"
#include "kvist/net/sha256.h"
#include "kvist/net/work_pool.h"
#include "kvist/openai/errors.h"
#include "kvist/telemetry/log.h"
#include "kvist/workload/load_input.h"
#include "kvist/workload/schedule_sample.h"

namespace kvist::loadgen {
namespace {

constexpr std::string_view kAgentLog = "agent";
/// As of the progress line.
constexpr Duration kAgentWindow = std::chrono::seconds(10);
/// In less time too little happens for a rate.
constexpr Duration kLeastWindow = std::chrono::seconds(1);

/// The value of a query's parameter; empty: it is not there. Nothing is encoded in what coordinators send.
std::string_view parameter(std::string_view target, std::string_view name) {
  std::size_t at = target.find('?');
  while (at != std::string_view::npos) {
    const std::string_view rest = target.substr(at + 1);
    const std::string_view pair = rest.substr(0, rest.find('&'));
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('=')) return pair.substr(name.size() + 1);
    at = rest.find('&') == std::string_view::npos ? std::string_view::npos : at + 1 + rest.find('&');
  }
  return {};
}

Result<std::uint64_t> number_in(std::string_view target, std::string_view name) {
  const std::string_view text = parameter(target, name);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && error == std::errc() && end == text.data() + text.size()) return number;
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: want a number in the query", name));
}

Result<net::Sha256> digest_in(std::string_view target) {
  const auto digest = net::sha256_from_hex(parameter(target, "sha256"));
  if (digest) return *digest;
  return fail(ErrorCode::kInvalidArgument, "sha256: want 64 hexadecimal digits in the query");
}

/// What a thread made of an order.
struct Prepared {
  AgentOrder order;
  std::shared_ptr<const workload::Mix> texts;
  std::string digest;
};

Result<Prepared> prepare(const ReadAgentOrder& read, const std::string& json) {
  Prepared prepared;
  KVIST_TRY(prepared.order, read(json));
  const ServiceOptions& options = prepared.order.options;
  if (!options.workload.trace.file.empty()) {
    return fail(ErrorCode::kUnsupported, "a trace is driven by one process: agents divide conversations");
  }
  KVIST_TRY(prepared.texts, workload::prepare_texts(options.workload, options.input, prepared.order.seed));
  prepared.digest = schedule_digest(prepared.order, prepared.texts);
  return prepared;
}

class AgentImpl final : public Agent {
 public:
  AgentImpl(net::EventLoop& loop, AgentOptions options)
      : loop_(loop),
        options_(std::move(options)),
        files_(options_.folder),
        pool_(loop, {.threads = 1, .max_waiting = 4}),
        lease_(loop),
        stop_(loop),
        paths_(refused_answer) {
    answer("GET", "/agent", [this](const net::HttpRequest& request) { return look(request); });
    answer("GET", "/clock", [](const net::HttpRequest&) { return json_answer(clock_json(net::now())); });
    answer("GET", "/files", [this](const net::HttpRequest& request) { return file_state(request); });
    answer("PUT", "/files", [this](const net::HttpRequest& request) { return add_file(request); });
    answer("POST", "/load", [this](const net::HttpRequest& request) { return prepare_load(request); });
    answer("POST", "/load/start", [this](const net::HttpRequest& request) { return start_load(request); });
    answer("PATCH", "/load", [this](const net::HttpRequest& request) { return change_load(request); });
    answer("POST", "/load/stop", [this](const net::HttpRequest& request) { return stop_load(request); });
    answer("GET", "/load/samples", [this](const net::HttpRequest& request) { return samples(request); });
    answer("GET", "/load/feed", [this](const net::HttpRequest& request) { return feed(request); });
    answer("POST", "/load/release", [this](const net::HttpRequest& request) { return release_load(request); });
  }

  Result<void> listen() {
    net::HttpServerOptions http =
        net::admin_listener(options_.http.host, options_.http.port, options_.keys.has_value());
    http.max_body_bytes = FileStore::kPartBytes;
    http.max_bodies_bytes = 16 * FileStore::kPartBytes;
    http.tls = options_.tls;
    http.before_body = [this](const net::HttpRequest& head) { return refuse_stranger(head); };
    KVIST_TRY(server_, net::HttpServer::listen(loop_, http, [this](net::HttpRequest request, auto exchange) {
                if (auto refused = refuse_stranger(request)) return exchange->respond(*std::move(refused));
                paths_.handle(std::move(request), exchange);
              }));
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return server_->port(); }
  [[nodiscard]] AgentState state() const override { return state_; }

 private:
  void answer(const std::string& method, const std::string& path, net::PathTable::Answer handler) {
    paths_.answer(method, path, std::move(handler));
  }

  [[nodiscard]] std::optional<net::HttpResponse> refuse_stranger(const net::HttpRequest& request) const {
    if (!options_.keys) return std::nullopt;
    const std::string_view key = net::sent_key(request.headers);
    if (options_.keys->has(key)) return std::nullopt;
    return json_answer(openai::unknown_key_body(!key.empty()), 401);
  }

  [[nodiscard]] net::HttpResponse report_answer() const { return json_answer(agent_report_json(report())); }

  [[nodiscard]] AgentReport report() const {
    AgentReport report{.kvist_version = std::string(kVersion),
                       .protocol = kAgentProtocol,
                       .threads = options_.threads,
                       .state = state_,
                       .load = load_name_,
                       .schedule = schedule_,
                       .error = error_};
    report.samples_refused = outbox_.refused();
    report.latest_change = latest_change_;
    if (!load_) return report;
    report.progress = load_->progress(window());
    report.samples_refused += report.progress.samples_refused;
    const Measured now = measured_ ? *measured_ : measure();
    report.exhausted = now.exhausted;
    report.held_back = now.held_back;
    report.client = now.client;
    report.driven = now.driven;
    return report;
  }

  /// A load that is younger than the window had less time for what the window counts.
  [[nodiscard]] Duration window() const {
    return started_at_ ? std::clamp(net::now() - *started_at_, kLeastWindow, kAgentWindow) : kAgentWindow;
  }

  /// What is known of the load at the instant from which it sends nothing new.
  struct Measured {
    bool exhausted = false;
    workload::HeldBack held_back;
    ClientLoad client;
    Duration driven{};
  };
  [[nodiscard]] Measured measure() const {
    return {.exhausted = load_->is_exhausted(),
            .held_back = load_->held_back(),
            .client = load_->client_load(),
            .driven = started_at_ ? std::max(Duration(0), net::now() - *started_at_) : Duration(0)};
  }

  /// The coordinator has asked for its load.
  void renew() {
    lease_.arm(net::now() + options_.lease, [this] {
      if (load_name_.empty()) return;
      telemetry::log_warning(kAgentLog, fmt::format("the coordinator of load {} is silent for {:g} s: given up",
                                                    load_name_, to_seconds(options_.lease)));
      forget();
    });
  }

  [[nodiscard]] Result<void> check_load_name(std::string_view name) const {
    if (!load_name_.empty() && name == load_name_) return {};
    return fail(ErrorCode::kNotFound, fmt::format("load: there is no load \"{}\" here", name));
  }

  net::HttpResponse look(const net::HttpRequest& request) {
    if (!load_name_.empty() && parameter(request.target, "load") == load_name_) renew();
    return report_answer();
  }

  net::HttpResponse file_state(const net::HttpRequest& request) {
    const Result<net::Sha256> digest = digest_in(request.target);
    return digest ? json_answer(file_state_json(files_.state(*digest))) : error_answer(digest.error());
  }

  net::HttpResponse add_file(const net::HttpRequest& request) {
    const auto added = [&]() -> Result<FileState> {
      KVIST_TRY(const net::Sha256 digest, digest_in(request.target));
      KVIST_TRY(const std::uint64_t offset, number_in(request.target, "offset"));
      KVIST_TRY(const std::uint64_t size, number_in(request.target, "bytes"));
      if (state_ == AgentState::kPreparing) return fail(ErrorCode::kResourceExhausted, "a load is being prepared");
      Result<FileState> result = files_.add(digest, offset, size, request.body);
      if (result || result.error().code != ErrorCode::kResourceExhausted || offset != 0) return result;
      files_.clear();  // those of loads before; a load that is ready has read its own
      return files_.add(digest, offset, size, request.body);
    }();
    return added ? json_answer(file_state_json(*added)) : error_answer(added.error());
  }

  net::HttpResponse prepare_load(const net::HttpRequest& request) {
    const Result<LoadCommand> command = parse_load_command(request.body);
    if (!command) return error_answer(command.error());
    if (command->load == load_name_) return report_answer();  // the answer to the first question was lost
    if (!load_name_.empty() && state_ != AgentState::kFailed) {
      return error_answer({ErrorCode::kResourceExhausted, "this agent drives a load of another coordinator"});
    }
    if (command->shard.index + options_.threads > command->shard.count) {
      return error_answer(
          {ErrorCode::kInvalidArgument, fmt::format("first: {} of {}; this agent has {} threads", command->shard.index,
                                                    command->shard.count, options_.threads)});
    }
    forget();
    load_name_ = command->load;
    shard_ = command->shard;
    watched_ = command->watched;
    state_ = AgentState::kPreparing;
    renew();
    auto work = [read = options_.read_order, json = command->order, this,
                 name = load_name_]() -> std::function<void()> {
      auto prepared = std::make_shared<Result<Prepared>>(prepare(read, json));
      return [this, name, prepared] { on_prepared(name, std::move(*prepared)); };
    };
    if (!pool_.submit(std::move(work), command->order.size())) {
      forget();
      return error_answer({ErrorCode::kResourceExhausted, "too many loads were ordered: try again later"});
    }
    return report_answer();
  }

  void on_prepared(const std::string& name, Result<Prepared> prepared) {
    if (name != load_name_ || state_ != AgentState::kPreparing) return;  // it was given up meanwhile
    const Result<void> made = prepared ? make_load(*std::move(prepared)) : std::unexpected(prepared.error());
    state_ = made ? AgentState::kReady : AgentState::kFailed;
    if (made) return;
    error_ = made.error().message;
    telemetry::log_warning(kAgentLog, fmt::format("load {} cannot be driven: {}", load_name_, error_));
  }

  Result<void> make_load(Prepared prepared) {
    ServiceOptions options = std::move(prepared.order.options);
    options.shard = shard_;
    options.listens = false;
    if (watched_) options.feed = std::make_shared<workload::LoadFeed>(feed_limits());
    KVIST_TRY(load_, make_threaded_load(loop_, options, options_.threads));
    load_->use_texts(prepared.order.seed, prepared.texts);
    load_->on_ended([this] { ended(); });
    level_ = prepared.order.level;
    seed_ = prepared.order.seed;
    schedule_ = std::move(prepared.digest);
    return {};
  }

  net::HttpResponse start_load(const net::HttpRequest& request) {
    const auto started = [&]() -> Result<void> {
      KVIST_TRY(const AgentStart command, parse_agent_start(request.body));
      KVIST_TRY_VOID(check_load_name(command.load));
      renew();
      if (started_at_) {  // the answer to the first question was lost
        if (*started_at_ == command.at) return {};
        return fail(ErrorCode::kInvalidArgument, "at_ns: the load was started for another instant");
      }
      if (state_ != AgentState::kReady) {
        return fail(ErrorCode::kInvalidArgument, fmt::format("the load is {}", to_string(state_)));
      }
      if (const Duration late = net::now() - command.at; late > Duration(0)) {
        return fail(ErrorCode::kDeadlineExceeded,
                    fmt::format("at_ns: {:.3f} s ago by this agent's clock: it was told too late", to_seconds(late)));
      }
      KVIST_TRY_VOID(load_->start_at(level_, seed_, command.at, {}));
      started_at_ = command.at;
      state_ = AgentState::kRunning;
      if (command.stop) stop_.arm(*command.stop, [this] { stop(true); });
      return {};
    }();
    return started ? report_answer() : error_answer(started.error());
  }

  net::HttpResponse change_load(const net::HttpRequest& request) {
    const auto changed = [&]() -> Result<void> {
      KVIST_TRY(const AgentChange command, parse_agent_change(request.body));
      KVIST_TRY_VOID(check_load_name(command.load));
      renew();
      if (state_ != AgentState::kRunning) {
        return fail(ErrorCode::kInvalidArgument, fmt::format("the load is {}", to_string(state_)));
      }
      if (changed_at_ == command.at) return {};  // the answer to the first question was lost
      latest_change_ = std::max(latest_change_, net::now() - command.at);
      changed_at_ = command.at;
      return load_->change_at(command.change, command.at);
    }();
    return changed ? report_answer() : error_answer(changed.error());
  }

  net::HttpResponse stop_load(const net::HttpRequest& request) {
    const Result<AgentStop> command = parse_agent_stop(request.body);
    if (!command) return error_answer(command.error());
    if (const Result<void> known = check_load_name(command->load); !known) return error_answer(known.error());
    renew();
    if (state_ == AgentState::kRunning || state_ == AgentState::kDraining) stop(command->drain);
    return report_answer();
  }

  /// Sends nothing new. A second time without `drain` breaks off what is in flight.
  void stop(bool drain) {
    if (state_ == AgentState::kDraining && drain) return;
    note_measured();
    stop_.cancel();
    state_ = AgentState::kDraining;
    load_->stop(drain, [this, name = load_name_] {
      if (name == load_name_ && state_ == AgentState::kDraining) state_ = AgentState::kEnded;
    });
  }

  /// The load has ended by itself.
  void ended() {
    if (state_ != AgentState::kRunning) return;
    note_measured();
    stop_.cancel();
    state_ = AgentState::kEnded;
  }

  void note_measured() {
    if (!measured_) measured_ = measure();
  }

  net::HttpResponse samples(const net::HttpRequest& request) {
    const auto page = [&]() -> Result<std::string> {
      KVIST_TRY_VOID(check_load_name(parameter(request.target, "load")));
      renew();
      KVIST_TRY(const std::uint64_t after, number_in(request.target, "after"));
      if (load_) outbox_.add(load_->take_samples());
      return outbox_.page_after(after);
    }();
    if (!page) return error_answer(page.error());
    return bytes_answer(*page);
  }

  net::HttpResponse feed(const net::HttpRequest& request) {
    const auto page = [&]() -> Result<std::string> {
      KVIST_TRY_VOID(check_load_name(parameter(request.target, "load")));
      renew();
      KVIST_TRY(const std::uint64_t after, number_in(request.target, "after"));
      if (!load_ || !watched_) return fail(ErrorCode::kInvalidArgument, "the load was not ordered to be watched");
      return feed_.page_after(after, [this] {
        const TimePoint until = net::now();
        return FeedPage{.until = until, .totals = load_->view().totals, .batch = load_->take_batch()};
      });
    }();
    return page ? bytes_answer(*page) : error_answer(page.error());
  }

  [[nodiscard]] static net::HttpResponse bytes_answer(const std::string& bytes) {
    net::HttpResponse response{.status = 200, .headers = {}, .body = bytes};
    response.headers.add("Content-Type", "application/octet-stream");
    return response;
  }

  net::HttpResponse release_load(const net::HttpRequest& request) {
    const Result<AgentStop> command = parse_agent_stop(request.body);
    if (!command) return error_answer(command.error());
    if (command->load == load_name_) forget();
    return report_answer();
  }

  /// Cancels what is left of the load, and is idle.
  void forget() {
    lease_.cancel();
    stop_.cancel();
    load_.reset();  // with its threads; calls under way are cancelled
    state_ = AgentState::kIdle;
    load_name_.clear();
    schedule_.clear();
    error_.clear();
    started_at_.reset();
    changed_at_.reset();
    measured_.reset();
    latest_change_ = {};
    outbox_ = SampleOutbox();
    feed_ = FeedOutbox();
  }

  net::EventLoop& loop_;
  const AgentOptions options_;
  FileStore files_;
  net::WorkPool pool_;
  net::Timer lease_;
  net::Timer stop_;
  AgentState state_ = AgentState::kIdle;
  std::string load_name_;  // empty when idle
  workload::Shard shard_;
  std::uint32_t level_ = 0;
  std::uint64_t seed_ = 0;
  std::string schedule_;
  std::string error_;
  std::optional<TimePoint> started_at_;
  std::optional<TimePoint> changed_at_;  // the last change that was taken
  std::optional<Measured> measured_;
  Duration latest_change_{};
  SampleOutbox outbox_;
  bool watched_ = false;
  FeedOutbox feed_;
  std::unique_ptr<ThreadedLoad> load_;
  net::PathTable paths_;
  std::unique_ptr<net::HttpServer> server_;  // last, so that it is destroyed first
};

}  // namespace

std::string schedule_digest(const AgentOrder& order, const std::shared_ptr<const workload::Mix>& texts) {
  return net::to_hex(net::sha256(
      workload::schedule_sample(order.options.workload, order.options.input, texts, order.level, order.seed)));
}

Result<std::unique_ptr<Agent>> Agent::create(net::EventLoop& loop, AgentOptions options) {
  auto agent = std::make_unique<AgentImpl>(loop, std::move(options));
  KVIST_TRY_VOID(agent->listen());
  return agent;
}

}  // namespace kvist::loadgen
