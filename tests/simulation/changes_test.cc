// Workers that become slower, change their chunking or restart while a level runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "simulation/runs.h"

namespace kvist::simulation::changes_test {
namespace {

using spec::RoutingMode;
using workload::TurnOutcome;
using workload::TurnSample;

constexpr Duration kChange = std::chrono::seconds(6);
constexpr Duration kAway = std::chrono::seconds(2);
constexpr LevelPlan kLevel{.mode = RoutingMode::kRoundRobin, .concurrency = 9, .seed = 3};

/// `set` says what becomes of the second worker.
template <class Set>
spec::SweepSpec sweep_with(Set set) {
  spec::SweepSpec sweep = small_sweep();
  spec::WorkerChange change;
  set(change);
  change.at = kChange;
  change.worker = "worker-1";
  sweep.simulation.changes = {std::move(change)};
  return sweep;
}

/// The mean of what `value` says of the worker's turns that began and ended in [from, to).
template <class Value>
double mean(const LevelRun& run, const std::string& worker, Duration from, Duration to, Value value) {
  double sum = 0;
  int count = 0;
  for (const TurnSample& turn : run.turns) {
    if (turn.worker != worker || turn.outcome != TurnOutcome::kSucceeded) continue;
    if (turn.sent < TimePoint{} + from || turn.ended >= TimePoint{} + to) continue;
    sum += value(turn);
    ++count;
  }
  EXPECT_GT(count, 5) << worker;
  return sum / std::max(1, count);
}
double tpot_ms(const TurnSample& turn) {
  return turn.tpot_ms().value_or(0);
}

TEST(Changes, StepsOfASlowWorkerTakeLonger) {
  const LevelRun run = run_level(sweep_with([](auto& change) { change.slowness = 2; }), kLevel);
  const auto ratio = [&](const std::string& worker) {
    return mean(run, worker, kChange, kChange + kChange, tpot_ms) / mean(run, worker, Duration(0), kChange, tpot_ms);
  };
  EXPECT_NEAR(ratio("worker-1"), 2, 0.25);
  EXPECT_NEAR(ratio("worker-0"), 1, 0.15);
}

// The prompts are longer than the new budget, so that each takes several steps.
TEST(Changes, ASmallerBudgetTakesMoreStepsForAPrompt) {
  spec::SweepSpec sweep = sweep_with([](auto& change) { change.max_num_tokens = 16; });
  sweep.workload.turns_min = sweep.workload.turns_max = 1;
  sweep.workload.starters = 1'000;  // nothing is cached
  const LevelRun run = run_level(sweep, kLevel);
  const auto ttft_ms = [](const TurnSample& turn) { return turn.ttft_ms(); };
  const auto ratio = [&](const std::string& worker) {
    return mean(run, worker, kChange, kChange + kChange, ttft_ms) / mean(run, worker, Duration(0), kChange, ttft_ms);
  };
  EXPECT_GT(ratio("worker-1"), 4);
  EXPECT_LT(ratio("worker-0"), 2);
}

// Round robin goes on to choose the worker, so that requests meet a process that is away. Answers that had begun break
// off; all others are answered elsewhere. That nothing is lost in the books is checked by the simulation itself.
TEST(Changes, ARestartedWorkerLosesItsAnswersAndItsCache) {
  for (const RoutingMode mode : {RoutingMode::kRoundRobin, RoutingMode::kKv}) {
    SCOPED_TRACE(spec::to_string(mode));
    LevelPlan level = kLevel;
    level.mode = mode;
    const LevelRun run = run_level(sweep_with([](auto& change) { change.restart = kAway; }), level);
    std::vector<const TurnSample*> failed;
    std::vector<const TurnSample*> after;
    for (const TurnSample& turn : run.turns) {
      if (turn.outcome == TurnOutcome::kFailed) failed.push_back(&turn);
      const bool there = turn.worker == "worker-1" && turn.outcome == TurnOutcome::kSucceeded;
      const TimePoint died = TimePoint{} + kChange;
      if (there && turn.ended > died + kAway) after.push_back(&turn);
      if (there) {
        EXPECT_TRUE(turn.ended <= died + std::chrono::milliseconds(1) || turn.first_token >= died + kAway);
      }
    }
    ASSERT_FALSE(failed.empty());
    EXPECT_LE(failed.size(), 4U) << "the batch slots of the worker";
    for (const TurnSample* const turn : failed) {
      EXPECT_EQ(turn->worker, "worker-1");
      EXPECT_GT(turn->chunks, 0U) << "only begun answers break off";
    }
    ASSERT_GT(after.size(), 3U) << "it is used again";
    // Of prompts that one step computes, the second may find what the first has put there.
    const auto first = std::ranges::min_element(
        after, {}, [](const TurnSample* turn) { return std::pair(turn->first_token, turn->cached_tokens); });
    EXPECT_EQ((*first)->cached_tokens, 0U);
    EXPECT_TRUE(std::ranges::any_of(after, [](const TurnSample* turn) { return turn->cached_tokens > 0; }));
  }
}

TEST(Changes, AreReproducible) {
  const spec::SweepSpec sweep = sweep_with([](auto& change) { change.restart = kAway; });
  LevelPlan level{.mode = RoutingMode::kKv, .concurrency = 12, .seed = 4};
  const std::vector<std::string> once = in_words(run_level(sweep, level));
  EXPECT_EQ(once, in_words(run_level(sweep, level)));
  level.second_thread = true;
  EXPECT_EQ(once, in_words(run_level(sweep, level)));
}

TEST(Changes, ClairvoyanceKnowsNothingOfThem) {
  LevelPlan level = kLevel;
  level.mode = RoutingMode::kClairvoyant;
  const auto outcome = simulate_level(sweep_with([](auto& change) { change.slowness = 2; }), level,
                                      [](std::vector<TurnSample>) -> Result<void> { return {}; });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvist::simulation::changes_test
