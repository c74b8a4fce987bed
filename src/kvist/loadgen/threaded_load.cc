#include "kvist/loadgen/threaded_load.h"

#include <algorithm>
#include <future>
#include <thread>
#include <type_traits>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/loadgen/control_api.h"
#include "kvist/loadgen/load_measures.h"
#include "kvist/loadgen/load_merge.h"
#include "kvist/loadgen/load_settings.h"
#include "kvist/loadgen/metrics.h"
#include "kvist/loadgen/status.h"
#include "kvist/net/http_server.h"
#include "kvist/telemetry/metrics.h"
#include "kvist/workload/load_input.h"

namespace kvist::loadgen {
namespace {

/// The time until the schedule begins, so that every thread is ready.
constexpr Duration kLead = std::chrono::milliseconds(20);

/// A service on a loop and a thread of its own. Everything on the loop is made, used and destroyed on that thread.
class Part {
 public:
  explicit Part(ServiceOptions options) : options_(std::move(options)), thread_([this] { loop_.run(); }) {}
  ~Part() {
    loop_.post([this] {
      service_.reset();
      loop_.stop();
    });
    thread_.join();
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  [[nodiscard]] Result<void> create() {
    return run([this]() -> Result<void> {
      KVIST_TRY(service_, Service::create(loop_, options_));
      return {};
    });
  }
  /// Runs `work(service)` on the part's thread and waits for its result.
  template <class Work>
  std::invoke_result_t<Work, Service&> ask(Work work) {
    return run([this, &work] { return work(*service_); });
  }
  /// The same without waiting.
  template <class Work>
  void tell(Work work) {
    loop_.post([this, work = std::move(work)] { work(*service_); });
  }

 private:
  template <class Work>
  std::invoke_result_t<Work> run(Work work) {
    std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
    auto result = task.get_future();
    loop_.post([&task] { task(); });
    return result.get();
  }

  ServiceOptions options_;
  net::EventLoop loop_;
  std::unique_ptr<Service> service_;
  std::thread thread_;
};

/// See ThreadedLoad. Invariant: each part has its own feed, if the load has one.
class ThreadedLoadImpl final : public ThreadedLoad {
 public:
  ThreadedLoadImpl(net::EventLoop& loop, ServiceOptions options)
      : loop_(loop), options_(std::move(options)), api_(control_actions()) {}

  [[nodiscard]] Result<void> create(std::uint32_t threads) {
    for (std::uint32_t index = 0; index < threads; ++index) {
      ServiceOptions options = options_;
      options.shard = {.index = options_.shard.index + index, .count = std::max(options_.shard.count, threads)};
      options.listens = false;
      if (options_.feed) options.feed = std::make_shared<workload::LoadFeed>();  // each thread has its own
      options.watches_pauses = index == 0;                                       // they are the machine's
      parts_.push_back(std::make_unique<Part>(std::move(options)));
      KVIST_TRY_VOID(parts_.back()->create());
      parts_.back()->ask([this](Service& service) {
        service.on_over([this](std::optional<TimePoint>) { loop_.post(while_alive([this] { part_over(); })); });
      });
    }
    if (!options_.listens) return {};
    KVIST_TRY(server_, api_.listen(loop_, options_.http, options_.tls));
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return server_ ? server_->port() : 0; }
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) override {
    api_.handle(std::move(request), exchange);
  }

  [[nodiscard]] LoadView view() const override {
    LoadView all{.state = "idle"};
    for (const auto& part : parts_) add_view(part->ask([](const Service& service) { return service.view(); }), all);
    if (all.state == "idle") return all;
    if (all.concurrency) all.concurrency = concurrency_;
    if (const double rate = start_rate(options_.workload, settings_); rate > 0) all.rate_per_s = rate;
    return all;
  }
  [[nodiscard]] workload::LoadBatch take_batch() override {
    std::vector<workload::LoadBatch> batches;
    for (const auto& part : parts_) batches.push_back(part->ask([](Service& service) { return service.take_batch(); }));
    return merge_batches(std::move(batches));
  }

  [[nodiscard]] Result<void> prepare(std::uint64_t seed) override {
    if (texts_seed_ == seed) return {};
    KVIST_TRY(auto texts, workload::prepare_texts(options_.workload, options_.input, seed));
    use_texts(seed, texts);
    return {};
  }
  void use_texts(std::uint64_t seed, const std::shared_ptr<const workload::Mix>& texts) override {
    for (const auto& part : parts_) part->ask([&](Service& service) { service.use_texts(seed, texts); });
    texts_seed_ = seed;
  }

  [[nodiscard]] Result<void> start(std::uint32_t concurrency, std::uint64_t seed) override {
    return start_with(concurrency, seed, {});
  }
  [[nodiscard]] Result<void> start_with(std::uint32_t concurrency, std::uint64_t seed,
                                        const workload::LoadChange& settings) override {
    KVIST_TRY_VOID(prepare(seed));
    return start_at(concurrency, seed, net::now() + kLead, settings);
  }
  [[nodiscard]] Result<void> start_at(std::uint32_t concurrency, std::uint64_t seed, TimePoint at,
                                      const workload::LoadChange& settings) override {
    if (running_ > 0)
      return fail(ErrorCode::kInvalidArgument, "already running: stop first, and await the end of the turns");
    KVIST_TRY_VOID(prepare(seed));
    stopped_at_.reset();
    changes_.clear();
    settings_ = settings_at(options_.workload, concurrency).then(settings);
    concurrency_ = settings.is_empty() ? concurrency : level_of(settings_);
    for (const auto& part : parts_) {
      const Result<void> started =
          part->ask([&](Service& service) { return service.start_at(concurrency, seed, at, settings); });
      if (started) {
        ++running_;
        continue;
      }
      stopped_at_ = net::now();
      for (const auto& begun : parts_) begun->tell([](Service& service) { service.stop(false, {}); });
      return started;
    }
    return {};
  }

  [[nodiscard]] Result<void> change(const workload::LoadChange& change) override {
    return change_at(change, net::now() + kLead);
  }
  [[nodiscard]] Result<void> change_at(const workload::LoadChange& change, TimePoint at) override {
    // One part may have ended, as its share of the requests was sent; the others go on.
    bool changed = false;
    Result<void> refused;
    for (const auto& part : parts_) {
      Result<void> one = part->ask([&](Service& service) { return service.change_at(change, at); });
      changed = changed || one;
      if (!one) refused = std::move(one);
    }
    if (!changed) return refused;
    changes_.push_back({.at = at, .change = change});
    settings_ = settings_.then(change);
    concurrency_ = level_of(settings_);
    return {};
  }

  void stop(bool drain, std::function<void()> stopped) override {
    if (!stopped_at_) stopped_at_ = net::now();
    const auto left = std::make_shared<std::size_t>(parts_.size());
    const auto one = [left, stopped = std::move(stopped)] {
      if (--*left == 0 && stopped) stopped();
    };
    for (const auto& part : parts_) {
      part->tell([this, drain, one](Service& service) { service.stop(drain, [this, one] { loop_.post(one); }); });
    }
  }

  void on_ended(std::function<void()> ended) override { on_ended_ = std::move(ended); }
  void on_over(Over over) override { on_over_ = std::move(over); }
  [[nodiscard]] bool is_exhausted() const override {
    return std::ranges::all_of(parts_, [](const auto& part) {
      return part->ask([](const Service& service) { return service.is_exhausted(); });
    });
  }
  [[nodiscard]] std::uint32_t in_flight() const override {
    std::uint32_t sum = 0;
    for (const auto& part : parts_) sum += part->ask([](const Service& service) { return service.in_flight(); });
    return sum;
  }

  [[nodiscard]] Progress progress(Duration within) const override {
    std::vector<Progress> parts;
    for (const auto& part : parts_) {
      parts.push_back(part->ask([within](const Service& service) { return service.progress(within); }));
    }
    return merge_progress(parts, net::now());
  }

  [[nodiscard]] ClientLoad client_load() const override {
    ClientLoad all;
    for (const auto& part : parts_) {
      add_client_load(part->ask([](const Service& service) { return service.client_load(); }), all);
    }
    return all;
  }

  /// Once all parts were.
  [[nodiscard]] std::optional<std::string> given_up() const override {
    std::optional<std::string> why;
    for (const auto& part : parts_) {
      why = part->ask([](const Service& service) { return service.given_up(); });
      if (!why) break;
    }
    return why;
  }

  [[nodiscard]] workload::HeldBack held_back() const override {
    workload::HeldBack all;
    for (const auto& part : parts_) {
      const workload::HeldBack one = part->ask([](const Service& service) { return service.held_back(); });
      all.sent_late += one.sent_late;
      all.not_sent += one.not_sent;
    }
    return all;
  }

  [[nodiscard]] const std::vector<workload::AppliedChange>& changes() const override { return changes_; }

  [[nodiscard]] std::vector<workload::TurnSample> take_samples() override {
    std::vector<workload::TurnSample> all;
    for (const auto& part : parts_)
      add_samples(part->ask([](Service& service) { return service.take_samples(); }), all);
    sort_samples(all);
    return all;
  }

 private:
  /// What any part does the whole does: "running" before "draining" before "idle".
  static void add_view(const LoadView& part, LoadView& all) {
    all.open = part.open;
    all.replays = part.replays;
    all.in_flight += part.in_flight;
    add_totals(part.totals, all.totals);
    if (part.state == "idle" || all.state == "running") return;
    all.state = part.state;
    all.concurrency = part.concurrency;
    all.seed = part.seed;
    all.started = part.started;
  }

  [[nodiscard]] LoadMeasures measures() const {
    std::vector<LoadMeasures> parts;
    for (const auto& part : parts_)
      parts.push_back(part->ask([](const Service& service) { return service.measures(); }));
    return merge_measures(parts, net::now());
  }

  [[nodiscard]] ControlActions control_actions() {
    return {.start = [this](const StartCommand& command) { return start_as(command, options_.workload, *this); },
            .change = [this](const workload::LoadChange& wanted) { return change(wanted); },
            .stop = [this](bool drain, std::function<void()> stopped) { stop(drain, std::move(stopped)); },
            .status = [this] { return status_json(status()); },
            .metrics = [this] { return metrics_page(); }};
  }

  [[nodiscard]] Status status() const {
    const LoadView now = view();
    const bool idle = now.state == "idle";
    return {.state = now.state,
            .target = options_.target_url,
            .model = options_.model,
            .concurrency = idle ? 0 : concurrency_,
            .seed = now.seed,
            .target_rps = start_rate(options_.workload, idle ? settings_at(options_.workload, 0) : settings_),
            .window = options_.window,
            .measures = measures(),
            .load = client_load()};
  }

  [[nodiscard]] std::string metrics_page() const {
    return telemetry::expose([this](telemetry::MetricsPage& page) {
      const Status now = status();
      fill_metrics(
          page,
          {.measures = now.measures, .concurrency = now.concurrency, .target_rps = now.target_rps, .load = now.load});
    });
  }

  /// Work for the loop that is dropped if the load is gone by then.
  [[nodiscard]] std::function<void()> while_alive(std::function<void()> work) {
    return [alive = std::weak_ptr(alive_), work = std::move(work)] {
      if (!alive.expired()) work();
    };
  }

  /// A part has nothing more to do and nothing in flight.
  void part_over() {
    if (--running_ > 0) return;
    if (on_over_) on_over_(stopped_at_);
    if (!stopped_at_ && on_ended_) on_ended_();
  }

  net::EventLoop& loop_;
  const ServiceOptions options_;
  std::optional<std::uint64_t> texts_seed_;
  std::uint32_t concurrency_ = 0;        // of the last load, with its changes
  workload::LoadChange settings_;        // the same
  std::size_t running_ = 0;              // parts whose load is not over
  std::optional<TimePoint> stopped_at_;  // of the last load, by a call
  std::function<void()> on_ended_;
  Over on_over_;
  std::vector<workload::AppliedChange> changes_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // released on the loop's thread
  std::vector<std::unique_ptr<Part>> parts_;
  ControlApi api_;
  std::unique_ptr<net::HttpServer> server_;  // last, so that it is destroyed first
};

}  // namespace

Result<std::unique_ptr<ThreadedLoad>> make_threaded_load(net::EventLoop& loop, const ServiceOptions& options,
                                                         std::uint32_t threads) {
  KVIST_CHECK(threads >= 1, "at least one thread");
  auto load = std::make_unique<ThreadedLoadImpl>(loop, options);
  KVIST_TRY_VOID(load->create(threads));
  return load;
}

}  // namespace kvist::loadgen
