// How requests are shared between two equal workers, whatever the first observations were.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/routing/router.h"

namespace kvist::routing::equal_workers_test {
namespace {

constexpr std::uint32_t kBlockSize = 32;
constexpr std::size_t kClients = 4;

/// An engine on a busy machine, as a router observes it: a step takes a while, one with a prompt longer, and now and
/// then everything takes longer for a second.
struct NoisyEngine {
  struct Running {
    RequestHandle id;
    std::size_t client = 0;
    double prefill_tokens = 0;
    std::uint32_t tokens_left = 0;
    std::uint32_t tokens = 0;
    std::uint32_t prompt_tokens = 0;
  };
  std::vector<Running> running;
  std::vector<Running> arrived;  // enter with the next step
  std::optional<TimePoint> step_ends;
  double slowness = 1;  // of its machine
  std::uint64_t seed = 0;
  std::uint32_t requests = 0;

  void begin_step(TimePoint now) {
    running.insert(running.end(), arrived.begin(), arrived.end());
    arrived.clear();
    if (running.empty()) return step_ends.reset();
    double prefill = 0;
    for (const Running& one : running) prefill += one.prefill_tokens;
    const auto second = static_cast<std::uint64_t>(to_seconds(now.time_since_epoch()));
    RandomStream busy(mix_seed({seed, second}));
    const double noise = busy.uniform() < 0.2 ? 1.8 : 1.0;
    RandomStream jitter(mix_seed({seed, static_cast<std::uint64_t>(now.time_since_epoch().count())}));
    const double ms = 14 + 4.0 * static_cast<double>(running.size()) + 0.4 * prefill;
    step_ends = now + from_milliseconds(ms * slowness * noise * (0.9 + 0.2 * jitter.uniform()));
  }
};

class EqualWorkers {
 public:
  EqualWorkers(bool streams, std::uint64_t seed) : streams_(streams), random_(seed) {
    for (std::uint32_t i = 0; i < 2; ++i) engines_[i].seed = mix_seed({seed, i});
  }

  /// One stream to a worker whose machine is slower by a factor for that time.
  void first_impression(std::uint32_t worker, double slowness, std::uint32_t tokens) {
    engines_[worker].slowness = slowness;
    const std::uint32_t other = 1 - worker;
    fleet_[other].available = false;
    const bool streams = std::exchange(streams_, true);
    send(0, tokens);
    run_until_idle();
    streams_ = streams;
    fleet_[other].available = true;
    engines_[worker].slowness = 1;
    engines_[0].requests = engines_[1].requests = 0;
  }
  void set_slowness(std::uint32_t worker, double slowness) { engines_[worker].slowness = slowness; }

  /// kClients at a time, each of which sends the next request when its answer has come.
  void drive(std::uint32_t requests) {
    to_send_ = requests;
    for (std::size_t client = 0; client < kClients && to_send_ > 0; ++client) next(client);
    run_until_idle();
  }

  [[nodiscard]] std::uint32_t requests(std::uint32_t worker) const { return engines_[worker].requests; }

 private:
  void next(std::size_t client) {
    --to_send_;
    send(client, static_cast<std::uint32_t>(random_.uniform_int(30, 60)));
  }

  void send(std::size_t client, std::uint32_t tokens) {
    ++last_;
    const auto prompt = static_cast<std::uint32_t>(random_.uniform_int(60, 200));
    // Prompts that share nothing.
    std::vector<kv::BlockHash> blocks;
    for (std::uint32_t i = 0; i < prompt / kBlockSize; ++i) blocks.emplace_back(mix_seed({last_, i}));
    const auto decision =
        router_.route({.request = RequestId(last_),
                       .prompt_tokens = prompt,
                       .blocks = std::make_shared<const std::vector<kv::BlockHash>>(std::move(blocks)),
                       .streams = streams_,
                       .excluded = {}},
                      fleet_, now_);
    NoisyEngine& engine = engines_[decision->worker.value()];
    ++engine.requests;
    engine.arrived.push_back({.id = decision->request,
                              .client = client,
                              .prefill_tokens = static_cast<double>(prompt),
                              .tokens_left = tokens,
                              .prompt_tokens = prompt});
    if (!engine.step_ends) engine.begin_step(now_);
  }

  void run_until_idle() {
    for (;;) {
      NoisyEngine* first = nullptr;
      for (NoisyEngine& engine : engines_) {
        if (engine.step_ends && (first == nullptr || *engine.step_ends < *first->step_ends)) first = &engine;
      }
      if (first == nullptr) return;
      now_ = *first->step_ends;
      end_step(*first);
    }
  }

  void end_step(NoisyEngine& engine) {
    std::vector<std::size_t> free;
    for (NoisyEngine::Running& one : engine.running) {
      if (streams_ && one.tokens == 0) router_.on_first_token(one.id, now_);
      if (streams_) router_.on_progress(one.id, 1, now_);
      one.prefill_tokens = 0;
      ++one.tokens;
      if (--one.tokens_left > 0) continue;
      if (!streams_) {
        router_.on_whole_answer(one.id, {.tokens = one.tokens, .prompt_tokens = one.prompt_tokens, .cached_tokens = 0},
                                now_);
      }
      router_.on_usage(one.id, one.prompt_tokens, 0);
      router_.on_finished(one.id, true, now_);
      free.push_back(one.client);
    }
    std::erase_if(engine.running, [](const NoisyEngine::Running& one) { return one.tokens_left == 0; });
    for (const std::size_t client : free) {
      if (to_send_ > 0) next(client);
    }
    engine.begin_step(now_);
  }

  bool streams_;
  RandomStream random_;
  Router router_{{.model = "m", .block_size = kBlockSize, .workers = 2, .mode = spec::RoutingMode::kKv}};
  std::vector<WorkerView> fleet_{2, WorkerView{.available = true, .events_exact = true, .limits = {}}};
  std::array<NoisyEngine, 2> engines_;
  TimePoint now_{std::chrono::seconds(1)};
  std::uint64_t last_ = 0;
  std::uint32_t to_send_ = 0;
};

/// The ratio of the worker with more requests to the other.
double unevenness(const EqualWorkers& workers) {
  const std::uint32_t least = std::min(workers.requests(0), workers.requests(1));
  const std::uint32_t most = std::max(workers.requests(0), workers.requests(1));
  return static_cast<double>(most) / std::max(1U, least);
}

/// Over many loads with different noise.
void expect_even(bool streams, bool bad_first_impression) {
  constexpr int kSeeds = 16;
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    EqualWorkers workers(streams, seed);
    if (bad_first_impression) {
      workers.first_impression(0, 1, 12);
      workers.first_impression(1, 2, 12);
    }
    workers.drive(160);
    const double uneven = unevenness(workers);
    EXPECT_LE(uneven, 1.3) << "seed " << seed << ": " << workers.requests(0) << " and " << workers.requests(1);
    sum += uneven;
  }
  EXPECT_LE(sum / kSeeds, 1.1);
}

class EqualWorkersTest : public ::testing::TestWithParam<bool> {};

TEST_P(EqualWorkersTest, ShareTheLoad) {
  expect_even(GetParam(), false);
}

TEST_P(EqualWorkersTest, ShareTheLoadThoughOneLookedSlowAtFirst) {
  expect_even(GetParam(), true);
}

// The cost of trying: a worker that is three times slower gets a few requests.
TEST_P(EqualWorkersTest, AWorkerThatIsSlowIsTriedAndGetsLittle) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    EqualWorkers workers(GetParam(), seed);
    workers.set_slowness(1, 3);
    workers.drive(160);
    EXPECT_GT(workers.requests(1), 0U) << "seed " << seed;
    EXPECT_LT(workers.requests(1), 50U) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Answers, EqualWorkersTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "streamed" : "whole"; });

}  // namespace
}  // namespace kvist::routing::equal_workers_test
