#include "kvist/planning/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planning/fake_evaluator.h"

namespace kvist::planning::capacity_test {
namespace {

using spec::RoutingMode;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kTrafficSeed = 20261129;
const Slo kSlo = {{Headline::kTtftP95, 600}, {Headline::kTpotP95, 60}, {Headline::kErrorPct, 5}};

CapacityOptions limited(std::uint32_t max_users, std::uint32_t max_workers) {
  CapacityOptions options;
  options.max_users = max_users;
  options.max_workers = max_workers;
  return options;
}

/// TTFT p95 grows by 4 ms per user and worker's share; KV routing is a fifth better. Noise of 2 %.
Result<LevelFigures> growing(const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
  const double share = 3.0 * level.concurrency / static_cast<double>(sweep.deployment.workers.size());
  const double ttft = 4 * share * (level.mode == RoutingMode::kKv ? 0.8 : 1);
  return figures_with(scattered(ttft, 0.02, level), 30);
}

/// As growing(), without noise.
Result<LevelFigures> exact(const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
  const double share = 3.0 * level.concurrency / static_cast<double>(sweep.deployment.workers.size());
  return figures_with(4 * share * (level.mode == RoutingMode::kKv ? 0.8 : 1), 30);
}

TEST(Capacity, IsExactForAnExactSystem) {
  const FakeEvaluator evaluator(exact);
  const auto found =
      find_capacities(evaluator, three_workers(), {RoutingMode::kRoundRobin, RoutingMode::kKv}, kSlo, {});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ(found->at(0).users, 150);  // 600 / 4
  EXPECT_EQ(found->at(1).users, 187);  // 600 / 3.2 = 187.5
  for (const Capacity& capacity : *found) {
    EXPECT_EQ(capacity.surely, capacity.users);
    EXPECT_EQ(capacity.at_most, capacity.users);
    ASSERT_TRUE(capacity.limited_by);
    EXPECT_EQ(capacity.limited_by->figure, Headline::kTtftP95);
  }
}

TEST(Capacity, TheIntervalCoversTheTruthOfANoisySystem) {
  int outside = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    spec::SweepSpec sweep = three_workers();
    sweep.workload.seed = seed;
    const FakeEvaluator evaluator(growing);
    const auto found = find_capacity(evaluator, sweep, RoutingMode::kRoundRobin, kSlo, {});
    ASSERT_TRUE(found);
    EXPECT_LE(found->surely, found->users);
    EXPECT_LE(found->users, found->at_most);
    EXPECT_NEAR(found->users, 150, 5) << "seed " << seed;
    outside += found->surely > 150 || found->at_most < 150 ? 1 : 0;
  }
  EXPECT_LE(outside, 4);  // 95 % per decision; a search makes about ten near the edge
}

/// Factors of TTFT that differ from block to block by 20 % or so.
std::vector<double> factors_of_traffic(std::uint64_t traffic, std::size_t blocks) {
  RandomStream random(mix_seed({kTrafficSeed, traffic}));
  std::vector<double> factors(blocks);
  for (double& factor : factors) factor = random.normal(1, 0.2);
  return factors;
}

CapacityOptions of_a_replay() {
  CapacityOptions options;
  options.judge.same_requests = true;
  return options;
}

TEST(Capacity, OfAReplayTheIntervalCoversTheTruthOverBlocksOfTime) {
  SCOPED_TRACE("seed " + std::to_string(kTrafficSeed));
  const double truth = uneven_replay(1, factors_of_traffic(0, 2'000)).figures[Headline::kTtftP95].value();
  int outside = 0;
  std::size_t most_levels = 0;
  for (std::uint64_t traffic = 1; traffic <= 60; ++traffic) {
    const std::vector<double> factors = factors_of_traffic(traffic, 10);
    const FakeReplay evaluator([&](const auto&, const simulation::LevelPlan& level) {
      return uneven_replay(4.0 * level.concurrency / truth, factors);
    });
    const auto found = find_capacity(evaluator, three_workers(), RoutingMode::kRoundRobin, kSlo, of_a_replay());
    ASSERT_TRUE(found);
    EXPECT_LT(found->surely, found->users) << "traffic " << traffic;
    EXPECT_GE(found->at_most, found->users) << "traffic " << traffic;
    EXPECT_FALSE(found->lacks_interval);
    outside += found->surely > 150 || found->at_most < 150 ? 1 : 0;
    most_levels = std::max(most_levels, found->levels.size());
    EXPECT_EQ(evaluator.questions, 3 * static_cast<int>(found->levels.size()));
  }
  EXPECT_LE(outside, 14);  // 5 % on each side would be six
  EXPECT_GE(outside, 1);
  EXPECT_LE(most_levels, 35U);
}

TEST(Capacity, OfAReplayEveryBlockOfWhichIsAlikeIsExact) {
  const FakeReplay evaluator([](const auto&, const simulation::LevelPlan& level) {
    return uneven_replay(4.0 * level.concurrency / 1.2201, std::vector<double>(10, 1.0));  // its p95 is 1.22
  });
  const auto found = find_capacity(evaluator, three_workers(), RoutingMode::kRoundRobin, kSlo, of_a_replay());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->users, 150U);
  EXPECT_EQ(found->surely, 150U);
  EXPECT_EQ(found->at_most, 150U);
}

TEST(Capacity, OfAReplayFewTurnsAtFewUsersAreNoDoubtAboutTheMost) {
  // With few users hardly more than a hundred turns are left, and those of one block are slow.
  std::vector<double> one_is_slow(10, 1.0);
  one_is_slow.back() = 2.0;
  const FakeReplay evaluator([&](const auto&, const simulation::LevelPlan& level) {
    const bool few = level.concurrency < 40;
    return few ? uneven_replay(300, one_is_slow)
               : uneven_replay(4.0 * level.concurrency / 1.2201, std::vector(10, 1.0));
  });
  const auto found = find_capacity(evaluator, three_workers(), RoutingMode::kRoundRobin, kSlo, of_a_replay());
  ASSERT_TRUE(found);
  ASSERT_EQ(found->levels.front().verdict, Verdict::kUndecided);
  EXPECT_EQ(found->users, 150U);
  EXPECT_EQ(found->surely, 150U);
}

TEST(Capacity, HasNoIntervalWhereALevelNextToItHasTooFewTurns) {
  // Below 100 users there are too few turns for blocks of time.
  const auto capacity_of = [](double ms_per_user) {
    const FakeReplay evaluator([&](const auto&, const simulation::LevelPlan& level) {
      LevelSample sample = uneven_replay(ms_per_user * level.concurrency / 1.2201, std::vector<double>(10, 1.0));
      if (level.concurrency < 100) sample.blocks.reset();
      return sample;
    });
    return *find_capacity(evaluator, three_workers(), RoutingMode::kRoundRobin, kSlo, of_a_replay());
  };
  EXPECT_EQ(capacity_of(4).users, 150U);
  EXPECT_FALSE(capacity_of(4).lacks_interval) << "far below the answer means are enough";
  EXPECT_EQ(capacity_of(8).users, 75U);
  EXPECT_TRUE(capacity_of(8).lacks_interval);
}

TEST(Capacity, DoesNotDependOnTheNumberOfThreads) {
  const auto with_threads = [](unsigned threads) {
    const FakeEvaluator evaluator(growing);
    CapacityOptions options;
    options.judge.threads = threads;
    return *find_capacities(evaluator, three_workers(), {RoutingMode::kRoundRobin, RoutingMode::kKv}, kSlo, options);
  };
  const std::vector<Capacity> one = with_threads(1);
  const std::vector<Capacity> many = with_threads(7);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].users, many[i].users);
    EXPECT_EQ(one[i].surely, many[i].surely);
    EXPECT_EQ(one[i].at_most, many[i].at_most);
    ASSERT_EQ(one[i].levels.size(), many[i].levels.size());
    for (std::size_t k = 0; k < one[i].levels.size(); ++k) {
      EXPECT_EQ(one[i].levels[k].samples, many[i].levels[k].samples);
    }
  }
}

TEST(Capacity, ALevelRangeThatFailsBelowAFullBatchIsReportedAndNotCapacity) {
  // A decode batch of 33 to 63 has no captured graph: 45 ms instead of 31; 64 has one again.
  const FakeEvaluator evaluator([](const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
    const double batch = level.concurrency / static_cast<double>(sweep.deployment.workers.size());
    return figures_with(300, batch > 32 && batch < 63.5 ? 45 : batch > 70 ? 50 : 31);
  });
  const auto found = find_capacity(evaluator, three_workers(), RoutingMode::kKv, {{Headline::kTpotP95, 40}}, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->users, 96);
  EXPECT_THAT(found->holds_again, testing::Contains(192));
  EXPECT_EQ(found->limited_by->figure, Headline::kTpotP95);
}

TEST(Capacity, NothingHoldsWhereOneUserIsTooMany) {
  const FakeEvaluator evaluator([](const auto&, const auto&) { return figures_with(700, 30); });
  const auto found = find_capacity(evaluator, three_workers(), RoutingMode::kKv, kSlo, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->users, 0);
  EXPECT_EQ(found->at_most, 0);
}

TEST(Capacity, EndsAtTheLimit) {
  const FakeEvaluator evaluator([](const auto&, const auto&) { return figures_with(100, 30); });
  spec::SweepSpec sweep = three_workers();
  sweep.deployment.gateway.max_in_flight = 300;
  const auto found = find_capacity(evaluator, sweep, RoutingMode::kKv, kSlo, limited(5'000, 1'024));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->users, 300);
  EXPECT_TRUE(found->at_limit);
  EXPECT_FALSE(found->limited_by);
}

TEST(Capacity, ARateOfArrivalsIsNotLimitedByTheRequestsInFlight) {
  const FakeEvaluator evaluator([](const auto&, const auto&) { return figures_with(100, 30); });
  spec::SweepSpec sweep = three_workers();
  sweep.deployment.gateway.max_in_flight = 300;
  sweep.workload.arrivals.kind = spec::ArrivalKind::kPoisson;
  EXPECT_EQ(find_capacity(evaluator, sweep, RoutingMode::kKv, kSlo, limited(5'000, 1'024))->users, 5'000);
}

/// TTFT p95 of 4 ms and 20 tokens/s per user: within 600 ms up to 150 users.
Capacity capacity_with_least(double tokens_per_s) {
  const FakeEvaluator evaluator([](const auto&, const simulation::LevelPlan& level) {
    LevelFigures figures = figures_with(4.0 * level.concurrency, 30);
    figures[Headline::kThroughput] = 20.0 * level.concurrency;
    return figures;
  });
  Slo slo = kSlo;
  slo.push_back({Headline::kThroughput, tokens_per_s});
  return *find_capacity(evaluator, three_workers(), RoutingMode::kKv, slo, {});
}

TEST(Capacity, FewUsersThatAskForLittleAreNoEdge) {
  // 24, 48 and 96 users do not reach 2,000 tokens/s, because nobody asks for them.
  const Capacity found = capacity_with_least(2'000);
  EXPECT_EQ(found.users, 150);
  EXPECT_EQ(found.surely, 150);
  EXPECT_EQ(found.at_most, 150);
  EXPECT_EQ(found.too_few, 96);
  EXPECT_EQ(found.limited_by->figure, Headline::kTtftP95);
  // A range of one.
  EXPECT_EQ(capacity_with_least(2'990).users, 150);
  // Nowhere are both within their limits.
  const Capacity none = capacity_with_least(3'100);
  EXPECT_EQ(none.users, 0);
  EXPECT_EQ(none.surely, 0);
  EXPECT_GE(none.too_few, 148);
  EXPECT_TRUE(none.limited_by.has_value());  // both are within 2 % of their limits there
  // Below a limit that the first level reaches nothing is different.
  EXPECT_EQ(capacity_with_least(100).too_few, 0);
  EXPECT_EQ(capacity_with_least(100).users, 150);
}

TEST(Capacity, DoubtWhetherTheLoadIsEnoughIsNoDoubtAboutTheMostUsers) {
  // About 100 users the rate is within its noise of the least one; TTFT is beyond its limit from 150 on.
  const FakeEvaluator evaluator([](const auto&, const simulation::LevelPlan& level) {
    LevelFigures figures = figures_with(4.0 * level.concurrency, 30);
    figures[Headline::kTurnRate] = scattered(0.02 * level.concurrency, 0.05, level);
    return figures;
  });
  const Slo slo = {{Headline::kTurnRate, 2}, {Headline::kTtftP95, 600}};
  const auto found = find_capacity(evaluator, three_workers(), RoutingMode::kKv, slo, {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->users, 150);
  EXPECT_EQ(found->at_most, 150);
  EXPECT_GE(found->surely, 148);
  EXPECT_GT(found->too_few, 0U);
  // Also if chance decides some level among those in doubt.
  const FakeEvaluator with_luck([](const auto&, const simulation::LevelPlan& level) {
    LevelFigures figures = figures_with(4.0 * level.concurrency, 30);
    const bool is_lucky = level.concurrency < 106 && level.concurrency % 2 == 1;
    figures[Headline::kTurnRate] = is_lucky ? 2.2 : scattered(0.02 * level.concurrency, 0.1, level);
    return figures;
  });
  const auto lucky = find_capacity(with_luck, three_workers(), RoutingMode::kKv, slo, {});
  ASSERT_TRUE(lucky) << lucky.error().message;
  EXPECT_GE(lucky->surely, 148);
}

TEST(Capacity, AWindowInWhichNothingHappensAsksForTooLittle) {
  // One percent of a slow trace has no request within the window, so it has rates and nothing else.
  const FakeEvaluator evaluator([](const auto&, const simulation::LevelPlan& level) {
    LevelFigures figures = level.concurrency < 40 ? LevelFigures() : figures_with(4.0 * level.concurrency, 30);
    figures[Headline::kTurnRate] = level.concurrency < 40 ? 0 : 0.02 * level.concurrency;
    figures[Headline::kThroughput] = level.concurrency < 40 ? 0 : 20.0 * level.concurrency;
    return figures;
  });
  const Slo slo = {{Headline::kTurnRate, 2}, {Headline::kTtftP95, 600}, {Headline::kErrorPct, 5}};
  const auto found = find_capacity(evaluator, three_workers(), RoutingMode::kKv, slo, {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(found->unknown);
  EXPECT_EQ(found->users, 150);
  EXPECT_GE(found->too_few, 96U);
}

TEST(Capacity, ALeastRateThatNoNumberOfUsersReaches) {
  const FakeEvaluator evaluator([](const auto&, const auto&) {
    LevelFigures figures = figures_with(100, 30);
    figures[Headline::kGoodput] = 3;
    return figures;
  });
  const auto found =
      find_capacity(evaluator, three_workers(), RoutingMode::kKv, {{Headline::kGoodput, 4}}, limited(300, 9));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->users, 0);
  EXPECT_EQ(found->too_few, 300);
}

TEST(Capacity, AMissingFigureEndsTheSearch) {
  const FakeEvaluator evaluator([](const auto&, const simulation::LevelPlan& level) {
    LevelFigures figures = figures_with(4.0 * level.concurrency, 30);
    if (level.concurrency < 60) figures[Headline::kItlP95] = 30;
    return figures;
  });
  const auto found = find_capacity(evaluator, three_workers(), RoutingMode::kKv, {{Headline::kItlP95, 40}}, {});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(found->unknown);
  EXPECT_EQ(found->unknown->at, 96U);
  EXPECT_EQ(found->unknown->figure, Headline::kItlP95);
  EXPECT_EQ(found->unknown->seeds_without, 3U);
  EXPECT_EQ(found->users, 0);
  EXPECT_EQ(evaluator.questions, 9);  // 24, 48 and 96 users, and nothing after that
  EXPECT_THAT(unknown_text(*found->unknown, "user"), HasSubstr("ITL p95 was not measured at 96 users (3 of 3 seeds"));
}

TEST(WorkersNeeded, AMissingFigureEndsTheSearch) {
  const FakeEvaluator evaluator([](const auto&, const auto&) { return LevelFigures(); });
  const auto needed = find_workers(evaluator, three_workers(), RoutingMode::kKv, 100, kSlo, {});
  ASSERT_TRUE(needed) << needed.error().message;
  ASSERT_TRUE(needed->unknown);
  EXPECT_EQ(needed->unknown->figure, Headline::kTtftP95);
  EXPECT_EQ(needed->workers, 0);
}

TEST(WorkersNeeded, IsTheFewestThatHold) {
  const FakeEvaluator evaluator(exact);
  // 50 users per worker by round-robin: 600 / 4 / 3.
  for (const std::uint32_t users : {1U, 50U, 51U, 500U, 501U, 4'000U}) {
    const auto needed = find_workers(evaluator, three_workers(), RoutingMode::kRoundRobin, users, kSlo, {});
    ASSERT_TRUE(needed);
    EXPECT_EQ(needed->workers, (users + 49) / 50) << users;
    EXPECT_EQ(needed->surely_needs, needed->workers);
    EXPECT_EQ(needed->surely_enough, needed->workers);
  }
}

TEST(WorkersNeeded, ReportsThatNoNumberIsEnough) {
  const FakeEvaluator evaluator([](const auto&, const auto&) { return figures_with(700, 30); });
  const auto needed = find_workers(evaluator, three_workers(), RoutingMode::kKv, 100, kSlo, limited(0, 20));
  ASSERT_TRUE(needed);
  EXPECT_EQ(needed->workers, 0);
  EXPECT_EQ(needed->surely_enough, 0);
}

TEST(WorkersNeeded, RefusesMoreUsersThanTheGatewayAdmits) {
  const FakeEvaluator evaluator(exact);
  const auto needed = find_workers(evaluator, three_workers(), RoutingMode::kKv, 5'000, kSlo, {});
  ASSERT_FALSE(needed);
  EXPECT_THAT(needed.error().message, HasSubstr("the gateway's max_in_flight allows 1 to 4096"));
}

TEST(WithWorkers, RepeatsTheGivenWorkersUnderNewNames) {
  spec::SweepSpec sweep = three_workers();
  sweep.deployment.workers.resize(2);
  sweep.deployment.workers[1].max_batch_size = 32;
  const spec::SweepSpec more = with_workers(sweep, 5);
  std::vector<std::string> names;
  std::vector<std::uint32_t> sizes;
  for (const spec::WorkerSpec& worker : more.deployment.workers) {
    names.push_back(worker.name);
    sizes.push_back(worker.max_batch_size);
  }
  EXPECT_THAT(names, ElementsAre("worker-0", "worker-1", "worker-2", "worker-3", "worker-4"));
  EXPECT_THAT(sizes, ElementsAre(64, 32, 64, 32, 64));
  EXPECT_EQ(batch_slots_of(more.deployment), 256);
  EXPECT_EQ(gpus_of(more.deployment), 5);
}

}  // namespace
}  // namespace kvist::planning::capacity_test
