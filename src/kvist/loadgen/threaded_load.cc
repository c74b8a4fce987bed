#include "kvist/loadgen/threaded_load.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <thread>
#include <type_traits>
#include <utility>

#include "kvist/base/check.h"
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

void add_rates(const Progress& part, Progress& all) {
  all.succeeded += part.succeeded;
  all.failed += part.failed;
  all.samples_refused += part.samples_refused;
  all.window.in_flight += part.window.in_flight;
  all.window.error_pct += part.window.error_pct * part.window.turns_per_s;  // weighted, until it is divided
  all.window.output_tokens_per_s += part.window.output_tokens_per_s;
  all.window.turns_per_s += part.window.turns_per_s;
  all.window.conversation_starts_per_s += part.window.conversation_starts_per_s;
}

/// The mean of the values that are known.
std::optional<double> mean_of(const std::vector<Progress>& parts,
                              const std::function<std::optional<double>(const Progress&)>& value) {
  double sum = 0;
  int known = 0;
  for (const Progress& part : parts) {
    if (const std::optional<double> one = value(part)) {
      sum += *one;
      ++known;
    }
  }
  return known > 0 ? std::optional(sum / known) : std::nullopt;
}

void worsen(const ClientLoad& part, ClientLoad& all) {
  all.loop_delay_p99_ms = std::max(all.loop_delay_p99_ms, part.loop_delay_p99_ms);
  all.loop_delay_max_ms = std::max(all.loop_delay_max_ms, part.loop_delay_max_ms);
  all.loop_stalls += part.loop_stalls;
  all.loop_stalled_ms += part.loop_stalled_ms;
  all.cpu_seconds = std::max(all.cpu_seconds, part.cpu_seconds);  // each has that of the process
  const auto worst = [](std::optional<double>& most, const std::optional<double>& one) {
    if (one) most = std::max(most.value_or(0), *one);
  };
  worst(all.run_queue_seconds, part.run_queue_seconds);
  worst(all.steal_share, part.steal_share);
  if (!all.pauses) all.pauses = part.pauses;
  if (!all.refused_starts) all.refused_starts = part.refused_starts;
  all.loops.push_back({.loop_delay_p99_ms = part.loop_delay_p99_ms,
                       .loop_delay_max_ms = part.loop_delay_max_ms,
                       .loop_stalls = part.loop_stalls,
                       .loop_stalled_ms = part.loop_stalled_ms,
                       .run_queue_seconds = part.run_queue_seconds});
}

class ThreadedLoad final : public Load {
 public:
  ThreadedLoad(net::EventLoop& loop, ServiceOptions options) : loop_(loop), options_(std::move(options)) {}

  [[nodiscard]] Result<void> create(std::uint32_t threads) {
    for (std::uint32_t index = 0; index < threads; ++index) {
      ServiceOptions options = options_;
      options.shard = {.index = index, .count = threads};
      if (index > 0) options.http.port = 0;
      options.watches_pauses = index == 0;  // they are the machine's
      parts_.push_back(std::make_unique<Part>(std::move(options)));
      KVIST_TRY_VOID(parts_.back()->create());
      parts_.back()->ask(
          [this](Service& service) { service.on_ended([this] { loop_.post([this] { part_ended(); }); }); });
    }
    port_ = parts_.front()->ask([](const Service& service) { return service.port(); });
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return port_; }

  [[nodiscard]] Result<void> prepare(std::uint64_t seed) override {
    if (texts_seed_ == seed) return {};
    KVIST_TRY(auto texts, workload::prepare_texts(options_.workload, options_.input, seed));
    for (const auto& part : parts_) part->ask([&](Service& service) { service.use_texts(seed, texts); });
    texts_seed_ = seed;
    return {};
  }

  [[nodiscard]] Result<void> start(std::uint32_t concurrency, std::uint64_t seed) override {
    KVIST_TRY_VOID(prepare(seed));
    running_ = parts_.size();
    const TimePoint at = net::now() + kLead;
    for (const auto& part : parts_) {
      const Result<void> started = part->ask([&](Service& service) { return service.start_at(concurrency, seed, at); });
      if (started) continue;
      for (const auto& begun : parts_) begun->tell([](Service& service) { service.stop(false, {}); });
      return started;
    }
    return {};
  }

  void stop(bool drain, std::function<void()> stopped) override {
    const auto left = std::make_shared<std::size_t>(parts_.size());
    const auto one = [this, left, stopped = std::move(stopped)] {
      if (--*left == 0 && stopped) stopped();
    };
    for (const auto& part : parts_) {
      part->tell([this, drain, one](Service& service) { service.stop(drain, [this, one] { loop_.post(one); }); });
    }
  }

  void on_ended(std::function<void()> ended) override { on_ended_ = std::move(ended); }
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
    Progress all;
    for (const auto& part : parts_) {
      parts.push_back(part->ask([within](const Service& service) { return service.progress(within); }));
      add_rates(parts.back(), all);
    }
    workload::Snapshot& window = all.window;
    window.at = net::now();
    window.error_pct = window.turns_per_s > 0 ? window.error_pct / window.turns_per_s : 0;
    for (const auto member :
         {&workload::Snapshot::ttft_p50_ms, &workload::Snapshot::ttft_p95_ms, &workload::Snapshot::tpot_p50_ms,
          &workload::Snapshot::tpot_p95_ms, &workload::Snapshot::itl_p50_ms, &workload::Snapshot::itl_p95_ms,
          &workload::Snapshot::latency_p50_ms, &workload::Snapshot::latency_p95_ms}) {
      window.*member = mean_of(parts, [member](const Progress& part) { return part.window.*member; });
    }
    all.itl_p50_ms = mean_of(parts, [](const Progress& part) { return part.itl_p50_ms; });
    all.itl_p95_ms = mean_of(parts, [](const Progress& part) { return part.itl_p95_ms; });
    return all;
  }

  [[nodiscard]] ClientLoad client_load() const override {
    ClientLoad all;
    for (const auto& part : parts_)
      worsen(part->ask([](const Service& service) { return service.client_load(); }), all);
    return all;
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
    for (const auto& part : parts_) {
      std::vector<workload::TurnSample> own = part->ask([](Service& service) { return service.take_samples(); });
      all.insert(all.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
    }
    std::ranges::stable_sort(all, {}, &workload::TurnSample::ended);
    return all;
  }

 private:
  /// A part has nothing more to do and nothing in flight.
  void part_ended() {
    if (--running_ == 0 && on_ended_) on_ended_();
  }

  net::EventLoop& loop_;
  const ServiceOptions options_;
  std::optional<std::uint64_t> texts_seed_;
  std::uint16_t port_ = 0;
  std::size_t running_ = 0;  // parts that have not ended by themselves
  std::function<void()> on_ended_;
  const std::vector<workload::AppliedChange> changes_;  // it cannot be changed
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace

Result<std::unique_ptr<Load>> make_threaded_load(net::EventLoop& loop, const ServiceOptions& options,
                                                 std::uint32_t threads) {
  KVIST_CHECK(threads >= 1, "at least one thread");
  auto load = std::make_unique<ThreadedLoad>(loop, options);
  KVIST_TRY_VOID(load->create(threads));
  return load;
}

}  // namespace kvist::loadgen
