// bench: base spec kv routing
// A routing decision: hashing the prompt's blocks, looking them up, building the candidates, choosing, bookkeeping.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/router.h"

namespace kvist::routing {
namespace {

constexpr std::uint32_t kBlockSize = 32;
constexpr std::uint32_t kPrompts = 64;            // distinct prompts
constexpr std::uint32_t kRequestsPerWorker = 16;  // in flight, on average

constexpr std::uint32_t kStepsPerDecision = 32;  // a worker takes that many in a second
constexpr std::uint32_t kWorkersPerPrompt = 8;   // so many workers for one prompt that is not computed yet
constexpr std::uint64_t kUnchanged = 1;          // the version of the fleet, as whoever owns it knows

/// What the workers' answers and events say of the cache that the router expects.
enum class Workers : std::uint8_t {
  kAgree,       ///< as many tokens are cached as their events let expect, and what is computed is reported
  kContradict,  ///< nearly none are, and no event comes: each worker's events are in doubt
};

/// A router under load: every worker has requests in flight, 8 to 24 at first, and half of each prompt is cached on
/// some workers, a quarter on others. No two workers are alike, as in a fleet that serves.
class BusyRouter {
 public:
  BusyRouter(spec::RoutingMode mode, Workers say, std::uint32_t workers, std::uint32_t blocks, bool working_set)
      : say_(say),
        router_({.model = "m", .block_size = kBlockSize, .workers = workers, .mode = mode, .working_set = working_set}),
        fleet_(workers),
        by_worker_(workers),
        answers_(workers) {
    RandomStream random(mix_seed({workers, blocks}));
    for (WorkerView& worker : fleet_) {
      worker = {
          .available = true,
          .events_exact = true,
          .limits = {.block_size = kBlockSize, .kv_blocks = 1U << 20, .max_batch_size = 64, .max_num_tokens = 8'192}};
    }
    for (std::uint32_t i = 0; i < kPrompts; ++i) {
      std::vector<TokenId>& tokens = prompts_.emplace_back();
      for (std::uint32_t t = 0; t < blocks * kBlockSize + 7; ++t) {
        tokens.emplace_back(static_cast<std::uint32_t>(random.uniform_int(0, 100'000)));
      }
      store(i, static_cast<std::uint32_t>(random.uniform_int(0, workers - 1)), blocks / 2);
      store(i, static_cast<std::uint32_t>(random.uniform_int(0, workers - 1)), blocks / 4);
    }
    // Requests in flight have 8 to 24 blocks of which 8 are a shared prefix, and are in different phases.
    for (std::uint32_t worker = 0, i = 0; worker < workers; ++worker) {
      const auto requests = random.uniform_int(kRequestsPerWorker / 2, kRequestsPerWorker * 3 / 2);
      for (std::int64_t r = 0; r < requests; ++r, ++i) begin(WorkerId(worker), i, random);
    }
  }

  /// The time of one decision on a new request, without the bookkeeping for the end of an old one, which follows.
  std::chrono::nanoseconds decide(std::uint64_t i) {
    const std::vector<TokenId>& tokens = prompts_[i % kPrompts];
    const auto start = std::chrono::steady_clock::now();
    const kv::BlockHash root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
    RouteQuery query{
        .request = next(),
        .prompt_tokens = static_cast<std::uint32_t>(tokens.size()),
        .blocks = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(root, tokens, kBlockSize)),
        .streams = true,
        .excluded = {}};
    auto decision = router_.route(query, FleetView(fleet_, kUnchanged), now_);
    benchmark::DoNotOptimize(decision);
    const auto time = std::chrono::steady_clock::now() - start;
    add(*decision);
    end(live_.front());
    live_.pop_front();
    go_on();
    return time;
  }

 private:
  RequestId next() {
    now_ += std::chrono::microseconds(1'000'000 / fleet_.size());  // a request a second at each worker
    return RequestId(++requests_);
  }
  void store(std::uint32_t prompt, std::uint32_t worker, std::uint32_t blocks) {
    kv::BlockStored event;
    event.block_size = kBlockSize;
    event.tokens.assign(prompts_[prompt].begin(), prompts_[prompt].begin() + blocks * kBlockSize);
    for (std::uint64_t b = 0; b < blocks; ++b) event.hashes.emplace_back(mix_seed({2, prompt, b}));
    const std::vector<kv::KvEvent> events{std::move(event)};
    (void)router_.on_kv_events(WorkerId(worker), events);
  }
  void begin(WorkerId worker, std::uint32_t i, RandomStream& random) {
    const auto blocks = static_cast<std::uint32_t>(random.uniform_int(8, 24));
    auto names = std::make_shared<std::vector<kv::BlockHash>>();
    for (std::uint32_t b = 0; b < blocks; ++b) names->emplace_back(mix_seed({1, i % kPrompts, b < 8 ? 0 : i, b}));
    for (WorkerView& other : fleet_) other.available = false;
    fleet_[worker.value()].available = true;
    const auto decision = router_.route({.request = next(),
                                         .prompt_tokens = blocks * kBlockSize + 5,
                                         .blocks = std::move(names),
                                         .streams = true,
                                         .excluded = {}},
                                        fleet_, now_);
    for (WorkerView& other : fleet_) other.available = true;
    add(*decision);
    now_ += std::chrono::milliseconds(random.uniform_int(20, 60));
    router_.on_first_token(decision->request, now_);
    router_.on_progress(decision->request, static_cast<std::uint64_t>(random.uniform_int(1, 200)), now_);
  }
  void add(const Decision& decision) {
    live_.push_back(decision.request);
    by_worker_[decision.worker.value()].push_back(decision.request);
  }
  // What reaches the router between two decisions: one prompt is computed, and some workers take a step, in which each
  // of their decoding requests gets its next token.
  void go_on() {
    const std::size_t waiting = std::max<std::size_t>(1, fleet_.size() / kWorkersPerPrompt);
    if (live_.size() > waiting) router_.on_first_token(live_[live_.size() - 1 - waiting], now_);
    for (std::uint32_t i = 0; i < kStepsPerDecision; ++i) {
      for (const RequestHandle request : by_worker_[next_step_]) {
        if (router_.find(request)->decoding) router_.on_progress(request, 1, now_);
      }
      next_step_ = (next_step_ + 1) % by_worker_.size();
    }
  }
  void end(RequestHandle request) {
    const RoutedRequest& routed = *router_.find(request);
    const WorkerId worker = routed.worker;
    std::erase(by_worker_[worker.value()], request);
    router_.on_first_token(request, now_);
    router_.on_progress(request, 100, now_);
    router_.on_usage(request, 100, say_ == Workers::kAgree ? routed.cache.by_events : 32);
    if (say_ == Workers::kAgree) store_answer(worker);
    router_.on_finished(request, true, now_);
  }
  // A block of the answer takes the place of the one before.
  void store_answer(WorkerId worker) {
    kv::BlockStored stored;
    stored.block_size = kBlockSize;
    stored.hashes.emplace_back(mix_seed({3, worker.value(), requests_}));
    for (std::uint32_t t = 0; t < kBlockSize; ++t) stored.tokens.emplace_back(t == 0 ? worker.value() : 200'000 + t);
    std::vector<kv::KvEvent> events;
    kv::ExternalHash& last = answers_[worker.value()];
    if (last.value() != 0) events.emplace_back(kv::BlockRemoved{.hashes = {last}});
    last = stored.hashes.front();
    events.emplace_back(std::move(stored));
    (void)router_.on_kv_events(worker, events);
  }

  Workers say_;
  Router router_;
  std::vector<WorkerView> fleet_;
  std::vector<std::vector<TokenId>> prompts_;
  std::deque<RequestHandle> live_;                     // oldest first
  std::vector<std::vector<RequestHandle>> by_worker_;  // the same
  std::vector<kv::ExternalHash> answers_;              // by worker: the block of its last answer, 0 if there was none
  std::uint64_t requests_ = 0;
  std::size_t next_step_ = 0;  // the worker that takes the next step
  TimePoint now_;
};

// How often this thread lost its core to another.
long preemptions() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

// p50_ns and p99_ns of single decisions; decisions during which another process took the core are excluded. Arguments:
// workers, blocks of the prompt, whether the working set is kept, as a gateway does that may hold requests.
void decision(benchmark::State& state, spec::RoutingMode mode, Workers say) {
  BusyRouter router(mode, say, static_cast<std::uint32_t>(state.range(0)), static_cast<std::uint32_t>(state.range(1)),
                    state.range(2) != 0);
  std::vector<double> times;
  std::uint64_t i = 0;
  for (; i < 600; ++i) (void)router.decide(i);  // the decision log's memory is allocated from here on
  for (auto _ : state) {
    const long before = preemptions();
    const std::chrono::nanoseconds time = router.decide(i++);
    state.SetIterationTime(std::chrono::duration<double>(time).count());
    if (preemptions() == before) times.push_back(static_cast<double>(time.count()));
  }
  if (times.empty()) return state.SkipWithError("every decision was disturbed");
  std::ranges::sort(times);
  const auto quantile = [&](double q) {
    return times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1))];
  };
  state.counters["p50_ns"] = quantile(0.50);
  state.counters["p99_ns"] = quantile(0.99);
}
BENCHMARK_CAPTURE(decision, kv, spec::RoutingMode::kKv, Workers::kAgree)
    ->Name("routing/kv_decision")
    ->UseManualTime()
    ->ArgNames({"workers", "blocks", "working_set"})
    ->ArgsProduct({{8, 1'000}, {128, 2'000}, {0, 1}});
BENCHMARK_CAPTURE(decision, kv_in_doubt, spec::RoutingMode::kKv, Workers::kContradict)
    ->Name("routing/kv_decision_in_doubt")
    ->UseManualTime()
    ->ArgNames({"workers", "blocks", "working_set"})
    ->Args({1'000, 128, 0});
BENCHMARK_CAPTURE(decision, dynamo, spec::RoutingMode::kDynamo, Workers::kAgree)
    ->Name("routing/dynamo_decision")
    ->UseManualTime()
    ->ArgNames({"workers", "blocks", "working_set"})
    ->ArgsProduct({{8, 1'000}, {128, 2'000}, {0}});

}  // namespace
}  // namespace kvist::routing
