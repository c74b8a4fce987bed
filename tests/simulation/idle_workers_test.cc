// Mode kv leaves no worker without a request beside one with more than a few, unless the costs say why.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "kvist/routing/kv_policy.h"
#include "kvist/simulation/level.h"
#include "kvist/workload/trace_source.h"
#include "kvist/workload/traffic_generator.h"

namespace kvist::simulation::idle_workers_test {
namespace {

/// So many requests at a worker, waiting or decoding, are a few.
constexpr std::uint32_t kFew = 4;

spec::SweepSpec fleet(std::uint32_t workers, Duration measured) {
  spec::SweepSpec sweep;
  for (std::uint32_t i = 0; i < workers; ++i) {
    spec::WorkerSpec worker;
    worker.name = "worker-" + std::to_string(i);
    worker.max_model_len = 140'000;
    sweep.deployment.workers.push_back(worker);
  }
  sweep.deployment.gateway.max_in_flight = 100'000;
  sweep.method.warmup = std::chrono::seconds(1);
  sweep.method.snapshots = 1;
  sweep.method.snapshot_interval = measured;
  sweep.method.drain_timeout = std::chrono::milliseconds(1);
  return sweep;
}

/// Looks at decisions that give a request to a worker with more than a few while another one has none. Each is
/// explained by the record: every idle worker costs more, or as much within the step that counts as a tie.
struct Tally {
  std::uint64_t decisions = 0;
  std::uint64_t beside_idle = 0;
  std::uint64_t for_no_cache = 0;  ///< of those: an idle worker had as much of the prompt cached

  void add(const routing::DecisionRecord& record) {
    SCOPED_TRACE("decision " + std::to_string(record.number));
    ++decisions;
    const auto chosen = std::ranges::find(record.candidates, record.chosen, &routing::Candidate::worker);
    ASSERT_NE(chosen, record.candidates.end());
    ASSERT_EQ(record.left_out, 0U);
    if (chosen->load.requests <= kFew) return;
    bool idle = false, as_cached = false;
    for (const routing::Candidate& other : record.candidates) {
      if (other.load.requests > 0) continue;
      idle = true;
      as_cached |= other.cached_tokens >= chosen->cached_tokens;
      EXPECT_LE(chosen->cost, routing::KvPolicy::most_in_tie(other));
    }
    beside_idle += idle ? 1 : 0;
    for_no_cache += as_cached ? 1 : 0;
  }
};

Tally simulate(const spec::SweepSpec& sweep, std::uint32_t users, std::unique_ptr<workload::TurnSource> source = {}) {
  Tally tally;
  const DecisionWatch watch = [&](const routing::DecisionRecord& record) { tally.add(record); };
  const auto outcome = simulate_level(
      sweep, {.mode = spec::RoutingMode::kKv, .concurrency = users, .seed = 3, .watch = &watch},
      [](const std::vector<workload::TurnSample>&) -> Result<void> { return {}; }, std::move(source));
  EXPECT_TRUE(outcome) << outcome.error().message;
  return tally;
}

struct Traffic {
  workload::TrafficKind kind;
  double starts_per_s = 0;  // about what one worker can take
};

class IdleWorkersOfTraffic : public testing::TestWithParam<std::tuple<Traffic, std::uint32_t, double>> {};

TEST_P(IdleWorkersOfTraffic, AreLeftIdleForACache) {
  const auto& [traffic, workers, load] = GetParam();
  const Duration lasts = std::chrono::seconds(workers > 12 ? 50 : 300);
  auto trace = workload::generate_traffic(
      {.kind = traffic.kind, .seed = 11, .starts_per_s = traffic.starts_per_s * load * workers, .duration = lasts});
  ASSERT_TRUE(trace) << trace.error().message;
  spec::SweepSpec sweep = fleet(workers, lasts);
  sweep.workload.trace.file = "generated";
  const Tally tally =
      simulate(sweep, 1,
               std::make_unique<workload::TraceSource>(std::make_shared<const workload::Trace>(*std::move(trace)),
                                                       workload::TraceSource::Options{.seed = 5}, TimePoint{}));
  EXPECT_GT(tally.decisions, 50U);
  EXPECT_LE(tally.for_no_cache, tally.decisions / 1'000);
}

std::string name(const testing::TestParamInfo<std::tuple<Traffic, std::uint32_t, double>>& info) {
  const auto& [traffic, workers, load] = info.param;
  return std::string(to_string(traffic.kind)) + "_" + std::to_string(workers) + "_workers_" +
         std::to_string(static_cast<int>(100 * load));
}

INSTANTIATE_TEST_SUITE_P(Traffic, IdleWorkersOfTraffic,
                         testing::Combine(testing::Values(Traffic{workload::TrafficKind::kLongPrompts, 0.6},
                                                          Traffic{workload::TrafficKind::kRetrieval, 2.5},
                                                          Traffic{workload::TrafficKind::kAgents, 0.02},
                                                          Traffic{workload::TrafficKind::kCodeCompletion, 5},
                                                          Traffic{workload::TrafficKind::kReasoning, 0.25},
                                                          Traffic{workload::TrafficKind::kDocuments, 0.3}),
                                          testing::Values(4U, 12U, 64U), testing::Values(0.3, 0.6, 0.9)),
                         name);

// The published conversations.
TEST(IdleWorkers, OfConversationsAreNotLeftIdle) {
  for (const std::uint32_t users : {6U, 15U, 60U, 120U, 200U}) {
    SCOPED_TRACE(std::to_string(users) + " users");
    const Tally tally = simulate(fleet(3, std::chrono::seconds(60)), users);
    EXPECT_GT(tally.decisions, 20U);
    EXPECT_EQ(tally.beside_idle, 0U);
  }
}

// Fast engines, short answers and few hot prefixes: where a policy that stays with the prefix leaves workers idle.
TEST(IdleWorkers, OfShortAnswersAreLeftIdleForACache) {
  spec::SweepSpec sweep = fleet(3, std::chrono::seconds(30));
  for (spec::WorkerSpec& worker : sweep.deployment.workers) {
    worker.step_time = {.fixed = std::chrono::microseconds(10'500),
                        .per_prefill_token = std::chrono::nanoseconds(47'000)};
    worker.output_length = {.mean_tokens = 100, .standard_deviation_tokens = 10};
  }
  sweep.workload.starters = 10;
  sweep.workload.starter_tokens_min = sweep.workload.starter_tokens_max = 3'000;
  sweep.workload.max_tokens = 100;
  for (const std::uint32_t users : {6U, 15U, 60U, 120U}) {
    SCOPED_TRACE(std::to_string(users) + " users");
    const Tally tally = simulate(sweep, users);
    EXPECT_GT(tally.decisions, 100U);
    EXPECT_EQ(tally.for_no_cache, 0U);
  }
}

}  // namespace
}  // namespace kvist::simulation::idle_workers_test
