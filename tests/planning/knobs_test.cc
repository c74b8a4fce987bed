#include "kvist/planning/knobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kvist/planning/capacity_tables.h"
#include "planning/fake_evaluator.h"

namespace kvist::planning::knobs_test {
namespace {

using spec::RoutingMode;

const Slo kSlo = {{Headline::kTtftP95, 600}};

spec::SweepSpec with_profiles() {
  spec::SweepSpec sweep = three_workers();
  for (spec::WorkerSpec& worker : sweep.deployment.workers) worker.profile.emplace().memory_fraction = 0.9;
  return sweep;
}

/// Each worker holds as many users as half its batch slots; KV routing a quarter more; H100 half.
Result<LevelFigures> half_the_slots(const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
  double users = 0;
  for (const spec::WorkerSpec& worker : sweep.deployment.workers) {
    const bool slow = worker.profile && worker.profile->gpu == "h100";
    users += worker.max_batch_size / 2.0 * (slow ? 0.5 : 1) * (worker.profile ? worker.profile->tensor_parallel : 1);
  }
  if (level.mode == RoutingMode::kKv) users *= 1.25;
  return figures_with(600 * level.concurrency / users, 30);
}

Result<void> no_more_than_85_percent(const spec::SweepSpec& sweep) {
  const auto& profile = sweep.deployment.workers.front().profile;
  if (!profile || profile->memory_fraction <= 0.91) return {};
  return fail(ErrorCode::kResourceExhausted, "out of memory; 0.90 works");
}

const KnobGain& gain_named(const KnobTable& table, std::string_view knob, std::string_view to) {
  const auto found =
      std::ranges::find_if(table.gains, [&](const KnobGain& gain) { return gain.knob == knob && gain.to == to; });
  EXPECT_NE(found, table.gains.end()) << knob << " " << to;
  return *found;
}

KnobTable measured(unsigned threads) {
  const FakeEvaluator evaluator(half_the_slots);
  CapacityOptions options;
  options.judge.threads = threads;
  const spec::SweepSpec sweep = with_profiles();
  const auto base = find_capacity(evaluator, sweep, RoutingMode::kRoundRobin, kSlo, options);
  return *measure_knobs(evaluator, no_more_than_85_percent, sweep, *base, kSlo, options);
}

TEST(Knobs, EveryChangeChangesOneThing) {
  const spec::SweepSpec sweep = with_profiles();
  std::set<std::string> knobs;
  for (const KnobChange& change : knob_changes(sweep, RoutingMode::kRoundRobin)) {
    knobs.insert(change.knob);
    EXPECT_NE(change.from, change.to);
    EXPECT_TRUE(change.mode != RoutingMode::kRoundRobin || change.sweep != sweep) << change.knob << " " << change.to;
    EXPECT_EQ(change.sweep.workload, sweep.workload);
  }
  EXPECT_EQ(knobs, (std::set<std::string>{"GPU", "admission", "batch size", "chunk budget", "graph padding",
                                          "memory fraction", "overlap scheduling", "prefix deferral", "routing mode",
                                          "speculation", "tensor parallel", "workers"}));
}

TEST(Knobs, OneWorkerHasNoRoutingAndCannotLoseAWorker) {
  spec::SweepSpec sweep = three_workers();
  sweep.deployment.workers.resize(1);
  for (const KnobChange& change : knob_changes(sweep, RoutingMode::kRoundRobin)) {
    EXPECT_NE(change.knob, "routing mode");
    EXPECT_FALSE(change.sweep.deployment.workers.empty());
    EXPECT_NE(change.knob, "GPU");  // without a profile there is no GPU to change
  }
}

TEST(Knobs, GainsAreThoseOfTheSystem) {
  const KnobTable table = measured(2);
  EXPECT_EQ(table.base.users, 96);
  EXPECT_EQ(table.gpus, 3);
  EXPECT_DOUBLE_EQ(gain_named(table, "batch size", "128").users, 96);
  EXPECT_DOUBLE_EQ(gain_named(table, "batch size", "128").users_per_gpu, 32);
  EXPECT_DOUBLE_EQ(gain_named(table, "batch size", "32").users, -48);
  EXPECT_DOUBLE_EQ(gain_named(table, "routing mode", "kv").users, 24);
  EXPECT_DOUBLE_EQ(gain_named(table, "GPU", "h100").users, -48);
  EXPECT_DOUBLE_EQ(gain_named(table, "workers", "4").users, 32);
  EXPECT_DOUBLE_EQ(gain_named(table, "workers", "4").users_per_gpu, 0);
  EXPECT_DOUBLE_EQ(gain_named(table, "tensor parallel", "2").users, 96);
  EXPECT_EQ(gain_named(table, "tensor parallel", "2").gpus, 6);
  EXPECT_DOUBLE_EQ(gain_named(table, "tensor parallel", "2").users_per_gpu, 0);
}

TEST(Knobs, AreRankedAndTheImpossibleSaysWhyAtTheEnd) {
  const KnobTable table = measured(2);
  bool possible = true;
  double last = 1e9;
  for (const KnobGain& gain : table.gains) {
    if (!gain.capacity) {
      possible = false;
      EXPECT_EQ(gain.impossible, "out of memory; 0.90 works");
      EXPECT_EQ(gain.to, "0.95");
      continue;
    }
    EXPECT_TRUE(possible) << "a possible change after an impossible one";
    EXPECT_LE(gain.users, last);
    EXPECT_LE(gain.users_low, gain.users);
    EXPECT_GE(gain.users_high, gain.users);
    last = gain.users;
  }
  EXPECT_FALSE(possible);
}

TEST(Knobs, AGainThatEndsAtTheSearchsLimitIsOpen) {
  // 150 users; four workers would hold more than the 160 that are looked at.
  const FakeEvaluator evaluator([](const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
    return figures_with(12.0 * level.concurrency / static_cast<double>(sweep.deployment.workers.size()), 30);
  });
  const Slo slo = {{Headline::kTtftP95, 600}};
  CapacityOptions options;
  options.max_users = 160;
  const Capacity base = *find_capacity(evaluator, three_workers(), spec::RoutingMode::kKv, slo, options);
  ASSERT_EQ(base.users, 150U);
  const Feasibility all = [](const spec::SweepSpec&) -> Result<void> { return {}; };
  const auto table = measure_knobs(evaluator, all, three_workers(), base, slo, options);
  ASSERT_TRUE(table);
  const auto more =
      std::ranges::find_if(table->gains, [](const KnobGain& gain) { return gain.knob == "workers" && gain.to == "4"; });
  ASSERT_NE(more, table->gains.end());
  ASSERT_TRUE(more->capacity->at_limit);
  EXPECT_TRUE(std::isinf(more->users_high));
  EXPECT_EQ(gain_interval_text(*table, *more), "+10 or more");
}

TEST(Knobs, DoNotDependOnTheNumberOfThreads) {
  const KnobTable one = measured(1);
  const KnobTable many = measured(5);
  ASSERT_EQ(one.gains.size(), many.gains.size());
  for (std::size_t i = 0; i < one.gains.size(); ++i) {
    EXPECT_EQ(one.gains[i].knob, many.gains[i].knob);
    EXPECT_EQ(one.gains[i].to, many.gains[i].to);
    EXPECT_EQ(one.gains[i].users, many.gains[i].users);
  }
}

}  // namespace
}  // namespace kvist::planning::knobs_test
