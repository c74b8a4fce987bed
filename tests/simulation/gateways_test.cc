// Several gateways before the same workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runs.h"

namespace kvist::simulation::gateways_test {
namespace {

spec::SweepSpec sweep_with(std::uint32_t gateways, bool exchange = true, Duration hop = std::chrono::milliseconds(5),
                           double loss = 0) {
  spec::SweepSpec sweep = small_sweep(6);
  sweep.simulation.gateways = {.count = gateways, .exchange = exchange, .hop = hop, .loss = loss};
  return sweep;
}

LevelRun run_kv(const spec::SweepSpec& sweep, std::uint64_t seed) {
  return run_level(sweep, {.mode = spec::RoutingMode::kKv, .concurrency = 20, .seed = seed});
}

double mean_ttft_ms(const LevelRun& run) {
  double sum = 0;
  std::size_t count = 0;
  for (const workload::TurnSample& turn : run.turns) {
    if (turn.outcome != workload::TurnOutcome::kSucceeded) continue;
    sum += to_milliseconds(turn.first_token - turn.sent);
    ++count;
  }
  return sum / static_cast<double>(count);
}

// Nothing that is asked of one gateway differs from what was asked before there could be several.
TEST(SeveralGateways, OneIsTheSameWhateverIsSaidOfOthers) {
  EXPECT_EQ(in_words(run_kv(sweep_with(1), 3)), in_words(run_kv(small_sweep(6), 3)));
}

// After the drain every gateway's loads are zero and its index is exact: run_level() checks that of each, losses or
// not.
TEST(SeveralGateways, LeaveNothingBehindWhateverIsLost) {
  for (const double loss : {0.0, 0.05, 0.5}) {
    const LevelRun run = run_kv(sweep_with(4, true, std::chrono::milliseconds(20), loss), 5);
    EXPECT_GT(run.turns.size(), 50U) << loss;
    for (const workload::TurnSample& turn : run.turns)
      EXPECT_NE(turn.outcome, workload::TurnOutcome::kFailed) << turn.error;
  }
}

TEST(SeveralGateways, AreDeterministic) {
  const spec::SweepSpec sweep = sweep_with(3, true, std::chrono::milliseconds(7), 0.1);
  EXPECT_EQ(in_words(run_kv(sweep, 9)), in_words(run_kv(sweep, 9)));
}

TEST(SeveralGateways, HerdWithoutTellingEachOther) {
  double alone = 0;
  double together = 0;
  double one = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    one += mean_ttft_ms(run_kv(sweep_with(1), seed));
    together += mean_ttft_ms(run_kv(sweep_with(8), seed));
    alone += mean_ttft_ms(run_kv(sweep_with(8, false), seed));
  }
  EXPECT_GT(alone, 1.3 * one) << "eight gateways that know of their own requests only";
  EXPECT_LT(together, 1.25 * one) << "eight that tell each other, with small workers and cold caches";
}

TEST(SeveralGateways, AreNotForClairvoyance) {
  const auto outcome =
      simulate_level(sweep_with(2), {.mode = spec::RoutingMode::kClairvoyant, .concurrency = 2, .seed = 1},
                     [](std::vector<workload::TurnSample>) -> Result<void> { return {}; });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvist::simulation::gateways_test
