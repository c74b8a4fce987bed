#include "kvist/loadgen/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/loadgen/base_url.h"
#include "kvist/loadgen/control_api.h"
#include "kvist/loadgen/kept_places.h"
#include "kvist/loadgen/load_settings.h"
#include "kvist/loadgen/loop_monitor.h"
#include "kvist/loadgen/metrics.h"
#include "kvist/loadgen/redaction.h"
#include "kvist/loadgen/refusal_watch.h"
#include "kvist/loadgen/run_warnings.h"
#include "kvist/loadgen/status.h"
#include "kvist/loadgen/turn_call.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/telemetry/log.h"
#include "kvist/workload/limited_source.h"
#include "kvist/workload/load_driver.h"
#include "kvist/workload/load_input.h"
#include "kvist/workload/recorder.h"
#include "kvist/workload/turn_source.h"

namespace kvist::loadgen {
namespace {

constexpr std::string_view kComponent = "loadgen";

/// Enough idle connections for every conversation, so that no turn needs a connect because the pool is small.
net::HttpClientOptions client_options(const ServiceOptions& service, const std::string& url) {
  net::HttpClientOptions options;
  options.servers[url] = service.target;
  options.max_idle_per_host = 1'000'000;
  options.source_addresses = service.source_addresses;
  options.stamp_reads = true;
  return options;
}

/// See Service. Invariants: a driver exists exactly while running or draining; calls_ holds one call per turn in
/// flight, equal in number to the driver's.
class ServiceImpl final : public Service, private TurnListener {
 public:
  ServiceImpl(net::EventLoop& loop, ServiceOptions options, Target target)
      : loop_(loop),
        options_(std::move(options)),
        target_(std::move(target)),
        recorder_(options_.window),
        client_(loop, client_options(options_, target_.url)),
        pace_(loop),
        kept_places_(loop, [this](ConversationId conversation) { release(conversation); }),
        monitor_(loop, options_.watches_pauses),
        api_(control_actions()) {}

  Result<void> listen() {
    if (!options_.listens) return {};
    KVIST_TRY(server_, api_.listen(loop_, options_.http, options_.tls));
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return server_ ? server_->port() : 0; }
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) override {
    api_.handle(std::move(request), exchange);
  }
  [[nodiscard]] workload::LoadBatch take_batch() override {
    return options_.feed ? options_.feed->take() : workload::LoadBatch{};
  }
  [[nodiscard]] LoadMeasures measures() const override {
    return measures_of(recorder_, net::now(), in_flight(), dropped_slots());
  }
  [[nodiscard]] LoadView view() const override {
    LoadView view{.state = state(),
                  .open = is_open(),
                  .replays = replays(),
                  .in_flight = in_flight(),
                  .totals = recorder_.totals()};
    if (!driver_) return view;
    const bool counts = !replays() || options_.workload.trace.loop == spec::TraceLoop::kClosed;
    if (counts && !is_open()) view.concurrency = concurrency_;
    if (target_rps() > 0) view.rate_per_s = target_rps();
    view.seed = seed_;
    view.started = started_;
    return view;
  }

  [[nodiscard]] Result<void> prepare(std::uint64_t seed) override {
    if (texts_seed_ == seed) return {};
    KVIST_TRY(texts_, workload::prepare_texts(options_.workload, options_.input, seed));
    texts_seed_ = seed;
    return {};
  }

  void use_texts(std::uint64_t seed, std::shared_ptr<const workload::Mix> texts) override {
    texts_ = std::move(texts);
    texts_seed_ = seed;
  }

  [[nodiscard]] Result<void> start(std::uint32_t concurrency, std::uint64_t seed) override {
    return start_with(concurrency, seed, {});
  }
  [[nodiscard]] Result<void> start_with(std::uint32_t concurrency, std::uint64_t seed,
                                        const workload::LoadChange& settings) override {
    KVIST_TRY_VOID(prepare(seed));
    return start_at(concurrency, seed, net::now(), settings);
  }

  [[nodiscard]] Result<void> start_at(std::uint32_t concurrency, std::uint64_t seed, TimePoint at,
                                      const workload::LoadChange& settings) override {
    if (driver_)
      return fail(ErrorCode::kInvalidArgument, "already running: stop first, and await the end of the turns");
    if (concurrency == 0) return fail(ErrorCode::kInvalidArgument, "concurrency: expected at least 1");
    KVIST_TRY_VOID(prepare(seed));
    KVIST_TRY(std::unique_ptr<workload::TurnSource> driver, source_of(concurrency, seed, at));
    if (!settings.is_empty()) KVIST_TRY_VOID(workload::check_change_of(options_.workload, options_.shard, settings));
    if (!settings.is_empty()) KVIST_TRY_VOID(driver->change(settings, at));
    driver_ = std::move(driver);
    if (options_.max_turns) {
      driver_ =
          std::make_unique<workload::LimitedSource>(std::move(driver_), options_.shard.share(*options_.max_turns));
    }
    settings_ = settings_at(options_.workload, concurrency).then(settings);
    concurrency_ = settings.is_empty() ? concurrency : level_of(settings_);
    changes_.clear();
    planned_.clear();
    seed_ = seed;
    started_ = net::now();
    target_.request_id = fmt::format("loadgen-{:x}", seed);
    target_.run_seed = seed;
    recorder_.begin_run();
    warnings_.begin(recorder_.totals());
    noted_.reset();
    stopped_at_.reset();
    refusals_.begin();
    monitor_.start();
    telemetry::log_info(kComponent, fmt::format("start: {}, seed {}, to {}", describe(), seed, target_.url));
    poll();
    return {};
  }

  [[nodiscard]] Result<void> raise(std::uint32_t concurrency) override {
    if (!driver_ || driver_->stopped()) return fail(ErrorCode::kInvalidArgument, "not running: start first");
    KVIST_TRY_VOID(driver_->raise(concurrency, net::now()));
    concurrency_ = concurrency;
    settings_.concurrency = concurrency;
    monitor_.start();
    telemetry::log_info(kComponent, fmt::format("raised: {}", describe()));
    poll();
    return {};
  }

  [[nodiscard]] Result<void> change(const workload::LoadChange& change) override {
    return change_at(change, net::now());
  }
  [[nodiscard]] Result<void> change_at(const workload::LoadChange& change, TimePoint at) override {
    if (!driver_ || driver_->stopped()) return fail(ErrorCode::kInvalidArgument, "not running: start first");
    if (changes_.size() + planned_.size() >= kMostChanges) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the load was changed {} times: start another one", kMostChanges));
    }
    if (replays()) return fail(ErrorCode::kUnsupported, "a recorded load cannot be changed while it runs");
    KVIST_TRY_VOID(workload::check_change_of(options_.workload, options_.shard, change));
    const TimePoint earliest = planned_.empty() ? net::now() : planned_.back().at;
    planned_.push_back({.at = std::max(at, earliest), .change = change});
    poll();
    if (driver_ && !driver_->stopped()) return {};
    return fail(ErrorCode::kInvalidArgument, "the load has just ended");
  }
  [[nodiscard]] const std::vector<workload::AppliedChange>& changes() const override { return changes_; }

  void stop(bool drain, std::function<void()> stopped) override {
    on_stopped_.push_back(std::move(stopped));
    if (!driver_) return finish_stop();
    if (!stopped_at_) stopped_at_ = net::now();
    note_refusals();
    driver_->stop();
    planned_.clear();
    pace_.cancel();
    kept_places_.release_all();
    if (!drain) abandon_calls();
    if (driver_->in_flight() == 0) finish_stop();
  }

  void on_ended(std::function<void()> ended) override { on_ended_ = std::move(ended); }
  void on_over(Over over) override { on_over_ = std::move(over); }
  [[nodiscard]] const workload::Recorder& recorder() const override { return recorder_; }
  [[nodiscard]] bool is_exhausted() const override { return !driver_ || driver_->is_exhausted(); }
  [[nodiscard]] std::uint32_t in_flight() const override { return static_cast<std::uint32_t>(calls_.size()); }
  [[nodiscard]] workload::Snapshot snapshot() override { return recorder_.snapshot(net::now(), in_flight()); }
  [[nodiscard]] ClientLoad client_load() const override {
    ClientLoad load = monitor_.load();
    load.refused_starts = refused_starts();
    return load;
  }
  [[nodiscard]] std::optional<std::string> given_up() const override { return refusals_.verdict(); }
  [[nodiscard]] workload::HeldBack held_back() const override {
    if (noted_) return noted_->held_back;
    return driver_ ? driver_->held_back(net::now()) : workload::HeldBack{};
  }
  [[nodiscard]] std::vector<workload::TurnSample> take_samples() override { return recorder_.take_samples(); }

  [[nodiscard]] Progress progress(Duration within) const override {
    const TimePoint now = net::now();
    return {.succeeded = recorder_.totals().turns_succeeded,
            .failed = recorder_.totals().turns_failed,
            .samples_refused = recorder_.totals().samples_refused,
            .window = recorder_.snapshot(now, in_flight(), within),
            .itl_p50_ms = recorder_.gap_quantile_ms(now, 0.50, within),
            .itl_p95_ms = recorder_.gap_quantile_ms(now, 0.95, within)};
  }

 private:
  [[nodiscard]] Result<std::unique_ptr<workload::TurnSource>> source_of(std::uint32_t concurrency, std::uint64_t seed,
                                                                        TimePoint at) const {
    if (options_.shard.count > 1 && !is_open() && concurrency < options_.shard.count && !replays_at_instants()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} conversations at once on {} threads; want at least one each", concurrency,
                              options_.shard.count));
    }
    return workload::make_turn_source(options_.workload, options_.input, texts_, concurrency, seed, at, options_.shard);
  }

  void on_content(TimePoint at, std::uint32_t chunks, std::optional<Duration> ttft,
                  std::span<const float> gaps_ms) override {
    if (options_.feed) options_.feed->on_content(at, chunks, ttft, gaps_ms);
    if (ttft) recorder_.on_first_token(at, *ttft);
    recorder_.on_content_chunks(at, chunks);
    recorder_.on_gaps(at, gaps_ms);
  }

  void on_finished(workload::TurnSample sample, std::string reply, int status) override {
    const ConversationId conversation = sample.conversation;
    const workload::TurnOutcome outcome = sample.outcome;
    const bool is_unreachable = outcome == workload::TurnOutcome::kFailed && status == 0;
    if (outcome == workload::TurnOutcome::kFailed) warnings_.on_failed(sample, recorder_.totals());
    if (refusals_.on_finished(sample, status)) give_up();
    if (options_.feed) options_.feed->on_turn_finished(sample, reply);
    const TimePoint now = net::now();
    recorder_.on_turn_finished(std::move(sample), now);
    warnings_.on_finished(recorder_.totals(), options_.count_tokens != nullptr);
    bury(conversation);
    make_changes(now);
    if (is_unreachable && !driver_->stopped()) {
      kept_places_.keep(conversation, now);
      return arm();
    }
    launch(driver_->on_turn_finished(conversation, std::move(reply), outcome, now));
    if (!driver_->stopped()) return arm();
    if (driver_->in_flight() == 0) end();
  }

  void release(ConversationId conversation) {
    launch(driver_->on_turn_finished(conversation, "", workload::TurnOutcome::kFailed, net::now()));
    if (!driver_->stopped()) return arm();
    if (driver_->in_flight() == 0 && on_stopped_.empty()) end();
  }

  void end() {
    const bool by_itself = on_stopped_.empty();
    finish_stop();
    if (by_itself && on_ended_) loop_.post(on_ended_);
  }

  /// Makes the changes that are due. What was due before each is sent as it was ordered.
  void make_changes(TimePoint now) {
    while (!planned_.empty() && planned_.front().at <= now && !driver_->stopped()) {
      const workload::AppliedChange planned = std::move(planned_.front());
      planned_.pop_front();
      launch(driver_->poll(planned.at));
      if (driver_->stopped()) return;
      if (const Result<void> made = driver_->change(planned.change, planned.at); !made) {
        telemetry::log_warning(kComponent, "not changed: " + made.error().message);
        continue;
      }
      changes_.push_back(planned);
      settings_ = settings_.then(planned.change);
      concurrency_ = level_of(settings_);
      telemetry::log_info(kComponent, fmt::format("changed: {}", describe()));
    }
  }

  /// When to poll next; nothing: the load waits for an answer, or has ended.
  [[nodiscard]] std::optional<TimePoint> next_wakeup() const {
    std::optional<TimePoint> next = driver_->next_wakeup();
    const bool goes_on = next || driver_->in_flight() > 0;
    if (goes_on && !planned_.empty()) next = std::min(next.value_or(planned_.front().at), planned_.front().at);
    return next;
  }

  void poll() {
    make_changes(net::now());
    launch(driver_->poll(net::now()));
    if (driver_->stopped() && driver_->in_flight() == 0) return end();
    arm();
  }

  void arm() {
    if (const std::optional<TimePoint> wakeup = next_wakeup()) {
      pace_.arm(*wakeup, [this] { poll(); });
    } else {
      pace_.cancel();
      if (driver_->in_flight() == 0) end();
    }
  }

  void launch(std::vector<workload::StartTurn> turns) {
    TurnListener& listener = *this;
    for (workload::StartTurn& turn : turns) {
      if (turn.turn == 0) recorder_.on_conversation_started(net::now());
      if (options_.feed) options_.feed->on_turn_started(net::now(), turn);
      const ConversationId conversation = turn.conversation;
      calls_.emplace(conversation, std::make_unique<TurnCall>(client_, target_, std::move(turn), listener));
    }
  }

  /// Removes a finished call and destroys it from the loop, because one of its handlers is running now.
  void bury(ConversationId conversation) {
    auto call = calls_.extract(conversation);
    loop_.post([dead = std::shared_ptr<TurnCall>(std::move(call.mapped()))] {});
  }

  void abandon_calls() {
    const TimePoint now = net::now();
    for (auto& [conversation, call] : calls_) {
      workload::TurnSample sample = call->abandon(now);
      if (options_.feed) options_.feed->on_turn_finished(sample, "");
      recorder_.on_turn_finished(std::move(sample), now);
      (void)driver_->on_turn_finished(conversation, "", workload::TurnOutcome::kAbandoned, now);
    }
    calls_.clear();
  }

  /// Nothing is in flight any more. The waiting callbacks are called from the loop, so that they may even destroy the
  /// service.
  void finish_stop() {
    if (driver_) {
      // A load of so many turns is stopped by its last one, while the next arrival or change is waited for.
      pace_.cancel();
      planned_.clear();
      note_refusals();
      dropped_slots_before_ += driver_->dropped_slots();
      driver_.reset();
      monitor_.stop();
      telemetry::log_info(kComponent, "stopped: nothing is in flight");
      if (on_over_) on_over_(stopped_at_);
    }
    for (std::function<void()>& stopped : std::exchange(on_stopped_, {})) {
      if (stopped) loop_.post(std::move(stopped));
    }
  }

  /// What may be asked for after a load, as of its stop: later more would seem to wait.
  struct Refusals {
    workload::HeldBack held_back;
    std::optional<std::string> refused_starts;
  };
  void note_refusals() {
    if (!noted_) noted_ = Refusals{.held_back = driver_->held_back(net::now()), .refused_starts = refused_starts()};
  }
  [[nodiscard]] std::optional<std::string> refused_starts() const {
    if (noted_) return noted_->refused_starts;
    if (!driver_) return std::nullopt;
    return workload::refused_starts(options_.workload, driver_->dropped_slots(),
                                    driver_->held_back(net::now()).sent_late, driver_->conversations_started());
  }

  /// What is in flight may end, and then the load has ended by itself.
  void give_up() {
    telemetry::log_warning(kComponent, "given up: " + *refusals_.verdict());
    note_refusals();
    driver_->stop();
    planned_.clear();
    pace_.cancel();
    kept_places_.release_all();
  }

  [[nodiscard]] bool replays() const { return loadgen::replays(options_.workload); }
  [[nodiscard]] bool is_open() const { return is_open_loop(options_.workload); }
  [[nodiscard]] bool replays_at_instants() const {
    return replays() && options_.workload.trace.loop == spec::TraceLoop::kOpen;
  }
  /// The rate of starts of drawn conversations; when idle, that of the next load.
  [[nodiscard]] double target_rps() const {
    return start_rate(options_.workload, driver_ ? settings_ : settings_at(options_.workload, 0));
  }
  [[nodiscard]] std::string describe() const { return describe_load(options_.workload, settings_, concurrency_); }

  [[nodiscard]] std::uint64_t dropped_slots() const {
    return dropped_slots_before_ + (driver_ ? driver_->dropped_slots() : 0);
  }

  [[nodiscard]] ControlActions control_actions() {
    return {.start = [this](const StartCommand& command) { return start_as(command, options_.workload, *this); },
            .change = [this](const workload::LoadChange& wanted) { return change(wanted); },
            .stop = [this](bool drain, std::function<void()> stopped) { stop(drain, std::move(stopped)); },
            .status = [this] { return status_json(status()); },
            .metrics = [this] { return metrics_page(); }};
  }

  [[nodiscard]] std::string_view state() const {
    if (!driver_) return "idle";
    return driver_->stopped() ? "draining" : "running";
  }

  [[nodiscard]] Status status() {
    return {.state = state(),
            .target = target_.url,
            .model = target_.model,
            .concurrency = driver_ ? concurrency_ : 0,
            .seed = driver_ ? seed_ : 0,
            .target_rps = target_rps(),
            .window = options_.window,
            .measures = measures(),
            .load = client_load()};
  }

  [[nodiscard]] std::string metrics_page() const {
    return telemetry::expose([this](telemetry::MetricsPage& page) {
      fill_metrics(page, {.measures = measures(),
                          .concurrency = driver_ ? concurrency_ : 0,
                          .target_rps = target_rps(),
                          .load = client_load()});
    });
  }

  net::EventLoop& loop_;
  const ServiceOptions options_;
  Target target_;
  workload::Recorder recorder_;
  net::HttpClient client_;
  net::Timer pace_;
  KeptPlaces kept_places_;
  LoopMonitor monitor_;
  std::uint32_t concurrency_ = 0;
  workload::LoadChange settings_;  // of the load under way, with its changes
  std::vector<workload::AppliedChange> changes_;
  std::deque<workload::AppliedChange> planned_;  // by their instants, which are to come
  std::uint64_t seed_ = 0;
  std::shared_ptr<const workload::Mix> texts_;  // null: a replay, or none was prepared
  std::optional<std::uint64_t> texts_seed_;     // of which they are
  TimePoint started_{};
  std::uint64_t dropped_slots_before_ = 0;  // of earlier runs
  RunWarnings warnings_;
  std::unique_ptr<workload::TurnSource> driver_;
  RefusalWatch refusals_;
  std::optional<Refusals> noted_;  // of a load that was stopped or has ended
  std::map<ConversationId, std::unique_ptr<TurnCall>>
      calls_;  // ordered, so that calls are abandoned in the order of their start
  std::vector<std::function<void()>> on_stopped_;
  std::function<void()> on_ended_;
  Over on_over_;
  std::optional<TimePoint> stopped_at_;  // of the load under way, by stop()
  ControlApi api_;
  std::unique_ptr<net::HttpServer>
      server_;  // last, so that it is destroyed first, with the requests that refer to the other members
};

}  // namespace

Result<std::unique_ptr<Service>> Service::create(net::EventLoop& loop, ServiceOptions options) {
  KVIST_TRY_VOID(workload::check_load(options.workload, options.input));
  if (options.model.empty()) return fail(ErrorCode::kInvalidArgument, "model: missing");
  if (options.shard.count > 1 && options.input.recorded) {
    return fail(ErrorCode::kUnsupported, "a recorded run is driven by one thread");
  }
  if (options.shard.count > 1 && options.workload.arrivals.is_open() &&
      options.workload.arrivals.max_conversations < options.shard.count) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} conversations at most on {} threads; want at least one each",
                            options.workload.arrivals.max_conversations, options.shard.count));
  }
  if (options.window <= Duration::zero()) return fail(ErrorCode::kInvalidArgument, "window: must be above 0");
  KVIST_TRY(std::string url, base_url(options.target_url));
  Target target{.url = std::move(url),
                .model = options.model,
                .timeout = options.workload.request_timeout,
                .request_id = {},
                .path = options.path,
                .headers = options.headers,
                .prompt_ids = options.prompt_ids,
                .count_tokens = options.count_tokens,
                .secrets = secrets_of(options.target.bearer_key, options.headers, options.path)};
  auto service = std::make_unique<ServiceImpl>(loop, std::move(options), std::move(target));
  KVIST_TRY_VOID(service->listen());
  return service;
}

}  // namespace kvist::loadgen
