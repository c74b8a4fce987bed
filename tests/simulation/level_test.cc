#include "kvist/simulation/level.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kvist/spec/files.h"

namespace kvist::simulation {
namespace {

struct LevelRun {
  LevelOutcome outcome;
  std::vector<workload::TurnSample> turns;
};

LevelRun run_level(const spec::SweepSpec& sweep, const LevelPlan& level) {
  LevelRun run;
  Result<LevelOutcome> outcome =
      simulate_level(sweep, level, [&](std::vector<workload::TurnSample> turns) -> Result<void> {
        for (workload::TurnSample& turn : turns) run.turns.push_back(std::move(turn));
        return {};
      });
  EXPECT_TRUE(outcome) << outcome.error().message;
  if (outcome) run.outcome = std::move(*outcome);
  return run;
}

TEST(Level, DrivesTheDemoInBothModes) {
  const Result<spec::SweepSpec> sweep = spec::load_sweep(KVIST_SOURCE_DIR "/examples/sweeps/demo.yaml");
  ASSERT_TRUE(sweep) << sweep.error().message;
  for (const spec::RoutingMode mode : sweep->modes) {
    const LevelRun level = run_level(*sweep, {.mode = mode, .concurrency = 12, .seed = sweep->workload.seed});
    EXPECT_EQ(level.outcome.snapshots.size(), 3U);
    EXPECT_GT(level.turns.size(), 200U);
    for (const workload::TurnSample& turn : level.turns) {
      EXPECT_EQ(turn.outcome, workload::TurnOutcome::kSucceeded) << turn.error;
    }
  }
}

}  // namespace
}  // namespace kvist::simulation
