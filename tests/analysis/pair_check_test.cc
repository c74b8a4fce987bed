#include "kvist/analysis/pair_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "analysis/sample_run.h"
#include "kvist/analysis/comparison.h"
#include "kvist/workload/conversation.h"

namespace kvist::analysis::pair_check_test {
namespace {

using spec::RoutingMode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A level of drawn conversations, one after the other, as a worker with an endless cache that was empty answers them.
class DrawnLevel {
 public:
  DrawnLevel() {
    sweep_.deployment.workers.resize(1);
    sweep_.deployment.workers[0].name = "w-0";
    sweep_.deployment.workers[0].block_size = 32;
    sweep_.deployment.workers[0].kv_blocks = 10'000;
    sweep_.workload.starters = 2;
    sweep_.workload.starter_tokens_min = 1'000;
    sweep_.workload.starter_tokens_max = 1'200;
    sweep_.modes = {RoutingMode::kRoundRobin, RoutingMode::kKv};
    sweep_.levels = {4};
  }

  [[nodiscard]] results::LevelRecord record(RoutingMode mode, std::uint64_t seed = 7, bool warm = false) const {
    results::LevelRecord level;
    level.mode = mode;
    level.concurrency = 4;
    level.seed = seed;
    level.started = at_ms(1);
    level.measure_from = at_ms(1);
    level.measure_to = at_ms(1'000'000);
    const workload::Dataset dataset(sweep_.workload, seed);
    std::set<std::string> seen;
    std::int64_t now = 10;
    std::uint64_t tokens = 0;
    for (std::uint64_t c = 0; c < 20; ++c) {
      workload::Conversation conversation(sweep_.workload, dataset, seed, ConversationId(c));
      std::uint64_t cached = 0;
      for (std::uint32_t t = 0; t < 2; ++t) {
        std::size_t bytes = 20;
        for (const auto& message : conversation.messages()) bytes += message.content.size();
        workload::TurnSample turn = turn_sent_at(now, 50, {20, 20});
        now += 100;
        turn.conversation = ConversationId(c);
        turn.turn = t;
        turn.worker = "w-0";
        turn.prompt_tokens = static_cast<std::uint32_t>(bytes);
        turn.completion_tokens = 100;
        const bool is_new = t == 0 && seen.insert(conversation.messages().front().content).second;
        if (t == 0) cached = is_new && !warm ? 0 : (bytes - 1) / 32 * 32;
        turn.cached_tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(cached, (bytes - 1) / 32 * 32));
        tokens += bytes;
        level.turns.push_back(turn);
        cached = (bytes + 100) / 32 * 32;
        if (t == 0) (void)conversation.advance(std::string(100, 'x'));
      }
    }
    results::WorkerLevelRecord worker;
    worker.worker = "w-0";
    worker.prompt_tokens = tokens;
    level.workers.push_back(worker);
    return level;
  }

  [[nodiscard]] RunAnalysis run(results::LevelRecord baseline, results::LevelRecord candidate) const {
    results::RunRecord run;
    run.levels = {std::move(baseline), std::move(candidate)};
    return {run, sweep_};
  }

  spec::SweepSpec sweep_;
};

TEST(PairCheck, ACacheThatBeganEmptyIsNotOverdrawnAndItsBoundsHold) {
  const DrawnLevel drawn;
  const results::LevelRecord level = drawn.record(RoutingMode::kKv);
  const auto caches = level_caches(level, cache_context(drawn.sweep_));
  ASSERT_TRUE(caches.has_value());
  EXPECT_EQ(caches->overdrawn_turns, 0U);
  std::uint64_t cached = 0;
  for (const auto& turn : level.turns) cached += turn.cached_tokens;
  EXPECT_EQ(caches->bounds.endless, cached) << "this cache forgot nothing";
  EXPECT_EQ(caches->bounds.fleet, cached) << "and it was large enough";
  EXPECT_EQ(caches->bounds.routed, cached);
  EXPECT_THAT(objections_to(level, caches), IsEmpty());
  const RunAnalysis fair = drawn.run(drawn.record(RoutingMode::kRoundRobin), level);
  EXPECT_THAT(refusals(fair), IsEmpty());
  EXPECT_TRUE(
      gain_of(fair.find(RoutingMode::kRoundRobin, 4), fair.find(RoutingMode::kKv, 4), headline(Headline::kTtftP50))
          .value.has_value());
}

TEST(PairCheck, WhatFailedTurnsCouldHaveReusedIsNotInTheBounds) {
  const DrawnLevel drawn;
  results::LevelRecord level = drawn.record(RoutingMode::kKv);
  std::uint64_t prompts = 0;
  std::uint64_t cached = 0;
  for (workload::TurnSample& turn : level.turns) {
    if (turn.turn == 0 && turn.conversation.value() >= 2) {
      // Without an answer there is no usage, but its text has been seen, so that its length is known.
      turn.outcome = workload::TurnOutcome::kFailed;
      turn.prompt_tokens = turn.cached_tokens = turn.completion_tokens = 0;
    } else {
      prompts += turn.prompt_tokens;
      cached += turn.cached_tokens;
    }
  }
  const auto caches = level_caches(level, cache_context(drawn.sweep_));
  ASSERT_TRUE(caches.has_value());
  EXPECT_EQ(caches->bounds.prompt_tokens, prompts);
  EXPECT_LE(caches->bounds.endless, prompts);
  EXPECT_LE(caches->bounds.endless, cached) << "the first answers of those that failed are not in the cache";
  EXPECT_GT(caches->bounds.endless, cached / 2);
  EXPECT_EQ(caches->bounds.routed, caches->bounds.endless);
}

TEST(PairCheck, AWarmCacheInOneArmIsRefused) {
  const DrawnLevel drawn;
  const RunAnalysis run = drawn.run(drawn.record(RoutingMode::kRoundRobin), drawn.record(RoutingMode::kKv, 7, true));
  EXPECT_THAT(refusals(run), ElementsAre(AllOf(HasSubstr("kv at 4: kv: its caches were warm"), HasSubstr("2 turns"))));
  EXPECT_FALSE(
      gain_of(run.find(RoutingMode::kRoundRobin, 4), run.find(RoutingMode::kKv, 4), headline(Headline::kTtftP50))
          .value.has_value());
  const auto comparison = compare_modes(run);
  ASSERT_TRUE(comparison.has_value());
  EXPECT_EQ(comparison->levels.at(0).figures[0].verdict, PairedVerdict::kRefused);
  EXPECT_FALSE(comparison->levels.at(0).figures[0].candidate.has_value());
}

TEST(PairCheck, LoadThatTheClientDidNotSendIsRefused) {
  const DrawnLevel drawn;
  results::LevelRecord leaked = drawn.record(RoutingMode::kKv);
  leaked.workers[0].prompt_tokens += leaked.workers[0].prompt_tokens / 10;
  const RunAnalysis run = drawn.run(drawn.record(RoutingMode::kRoundRobin), std::move(leaked));
  EXPECT_THAT(refusals(run), ElementsAre(HasSubstr("kv: other load was on its workers")));
}

TEST(PairCheck, OtherSeedsAreRefused) {
  const DrawnLevel drawn;
  const RunAnalysis run = drawn.run(drawn.record(RoutingMode::kRoundRobin, 7), drawn.record(RoutingMode::kKv, 8));
  EXPECT_THAT(refusals(run), ElementsAre(HasSubstr("other seeds: 7 of round_robin, 8 of kv")));
}

TEST(PairCheck, OtherConversationsUnderTheSameSeedAreRefused) {
  const DrawnLevel drawn;
  results::LevelRecord other = drawn.record(RoutingMode::kKv, 8);
  other.seed = 7;
  const RunAnalysis run = drawn.run(drawn.record(RoutingMode::kRoundRobin, 7), std::move(other));
  EXPECT_THAT(refusals(run), testing::Contains(HasSubstr("other conversations")));
}

TEST(PairCheck, WithoutUsageNothingIsKnownAndNothingIsRefused) {
  const DrawnLevel drawn;
  results::LevelRecord level = drawn.record(RoutingMode::kKv);
  for (auto& turn : level.turns) turn.prompt_tokens = turn.cached_tokens = turn.completion_tokens = 0;
  EXPECT_FALSE(level_caches(level, cache_context(drawn.sweep_)).has_value());
  EXPECT_THAT(objections_to(level, std::nullopt), IsEmpty());
}

TEST(PairCheck, TheSmallestChangeThatWouldHaveBeenFoundFollowsFromTheScatter) {
  // Differences 2, 4, 3, 3: standard error 0.408248; t(0.975, 3) = 3.182446, t(0.8, 3) = 0.978472.
  const PairedChange change = mean_change({2, 4, 3, 3});
  EXPECT_NEAR(minimum_detectable(change, false).value(), (3.182446 + 0.978472) * 0.408248, 1e-4);
  EXPECT_FALSE(minimum_detectable(mean_change({2}), false).has_value());
}

}  // namespace
}  // namespace kvist::analysis::pair_check_test
