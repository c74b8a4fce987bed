#include "kvist/analysis/arrival_law.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <vector>

#include "analysis/sample_run.h"
#include "kvist/report/arrival_text.h"
#include "kvist/workload/open_arrivals.h"

namespace kvist::analysis::arrival_law_test {
namespace {

using spec::ArrivalKind;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

/// A level whose conversations start as these arrivals say, `late_ms` late.
results::LevelRecord level_of(const spec::ArrivalSpec& spec, double rate, double seconds, std::uint64_t seed,
                              double late_ms = 0) {
  results::LevelRecord level;
  level.started = at_ms(1'000);
  level.measure_from = level.started;
  level.measure_to = level.started + from_seconds(seconds);
  workload::OpenArrivals arrivals(spec, rate, seed, level.started);
  for (std::uint64_t id = 0; arrivals.next_start() && *arrivals.next_start() <= level.measure_to; ++id) {
    workload::TurnSample turn;
    turn.conversation = ConversationId(id);
    turn.intended = arrivals.try_start(*arrivals.next_start()).value();
    turn.sent = turn.intended + from_milliseconds(late_ms);
    level.turns.push_back(std::move(turn));
  }
  return level;
}

/// The same, sent by a client that needs some time for each request, one after the other.
results::LevelRecord sent_by_one_client(const spec::ArrivalSpec& spec, double rate, std::uint64_t seed,
                                        double each_ms) {
  results::LevelRecord level = level_of(spec, rate, 300, seed);
  TimePoint free = level.started;
  for (workload::TurnSample& turn : level.turns) {
    turn.sent = std::max(turn.intended, free);
    free = turn.sent + from_milliseconds(each_ms);
  }
  return level;
}

spec::ArrivalSpec law(ArrivalKind kind, double variation = 2) {
  return {.kind = kind, .variation = variation, .burst_size = 8, .max_conversations = 1'000'000};
}

TEST(GammaShare, AgreesWithKnownValues) {
  EXPECT_NEAR(gamma_share_below(1, 1), 0.6321205588, 1e-9);      // exponential
  EXPECT_NEAR(gamma_share_below(0.5, 0.5), 0.6826894921, 1e-9);  // chi squared with one degree: one sigma
  EXPECT_NEAR(gamma_share_below(5, 5), 0.5595067149, 1e-9);
  EXPECT_NEAR(gamma_share_below(10, 30), 0.9999929, 1e-6);
  EXPECT_EQ(gamma_share_below(2, 0), 0);
}

TEST(Kolmogorov, AgreesWithItsTable) {
  EXPECT_NEAR(kolmogorov_probability(1.358 / 100, 10'000), 0.05, 0.002);
  EXPECT_NEAR(kolmogorov_probability(1.628 / 100, 10'000), 0.01, 0.001);
  EXPECT_EQ(kolmogorov_probability(0, 100), 1);
}

TEST(ArrivalTest, EachLawPassesItsOwnTest) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    for (const ArrivalKind kind :
         {ArrivalKind::kPoisson, ArrivalKind::kBursty, ArrivalKind::kConstant, ArrivalKind::kBursts}) {
      const ArrivalTest test = test_arrivals(level_of(law(kind), 20, 300, seed), law(kind), 20);
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", law " << static_cast<int>(kind));
      EXPECT_TRUE(test.as_ordered()) << test.ks_probability.value_or(-1);
      EXPECT_NEAR(*test.sent_per_s, 20, 20 * 0.15);
      EXPECT_NEAR(*test.gap_variation, test.expected_gap_variation, 0.15 * (1 + test.expected_gap_variation));
      EXPECT_NEAR(*test.dispersion, test.expected_dispersion, 0.35 * (1 + test.expected_dispersion));
    }
  }
}

TEST(ArrivalTest, AnotherLawFails) {
  const ArrivalTest bursty =
      test_arrivals(level_of(law(ArrivalKind::kBursty), 20, 300, 1), law(ArrivalKind::kPoisson), 20);
  EXPECT_FALSE(bursty.as_ordered());
  const ArrivalTest constant =
      test_arrivals(level_of(law(ArrivalKind::kConstant), 20, 300, 1), law(ArrivalKind::kPoisson), 20);
  EXPECT_FALSE(constant.as_ordered());
  const ArrivalTest slow =
      test_arrivals(level_of(law(ArrivalKind::kPoisson), 15, 300, 1), law(ArrivalKind::kPoisson), 20);
  EXPECT_FALSE(slow.as_ordered());
}

TEST(ArrivalTest, GapsThatAreShorterThanSendingTakesDoNotCountAgainstTheLaw) {
  const spec::ArrivalSpec three = law(ArrivalKind::kBursty, 3);
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    for (const double rate : {20.0, 60.0, 100.0}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << rate << "/s");
      // In virtual time: every eighth gap is shorter than a nanosecond, and then none.
      const ArrivalTest exact = test_arrivals(level_of(three, rate, 300, seed), three, rate);
      EXPECT_TRUE(exact.as_ordered()) << *exact.ks_distance;
      EXPECT_LT(exact.gap_tolerance_ms, 0.0011);
      const ArrivalTest live = test_arrivals(sent_by_one_client(three, rate, seed, 0.06), three, rate);
      EXPECT_TRUE(live.as_ordered()) << *live.ks_distance;
      EXPECT_GT(live.gap_tolerance_ms, 0.06);
      EXPECT_LE(live.gap_tolerance_ms, 1.0);
    }
  }
}

TEST(ArrivalTest, AClientsOwnTimeDoesNotHideAnotherLaw) {
  const spec::ArrivalSpec three = law(ArrivalKind::kBursty, 3);
  const spec::ArrivalSpec poisson = law(ArrivalKind::kPoisson);
  for (const double rate : {20.0, 60.0, 1'000.0}) {
    SCOPED_TRACE(testing::Message() << rate << "/s");
    const auto refused = [&](const spec::ArrivalSpec& sent, const spec::ArrivalSpec& ordered, double each_ms) {
      return test_arrivals(sent_by_one_client(sent, rate, 1, each_ms), ordered, rate).law_refused();
    };
    EXPECT_TRUE(refused(law(ArrivalKind::kBursty, 1.5), three, 0.06)) << "half the variation";
    EXPECT_TRUE(refused(poisson, three, 0.06));
    EXPECT_TRUE(refused(three, poisson, 0.06));
    EXPECT_TRUE(refused(law(ArrivalKind::kConstant), poisson, 0.06));
    EXPECT_TRUE(refused(law(ArrivalKind::kConstant), three, 0.06));
    // A closed loop of one: each waits for the answer before it, which takes 90 % of the mean gap.
    EXPECT_TRUE(refused(poisson, poisson, 900 / rate));
    EXPECT_TRUE(refused(three, three, 900 / rate));
  }
}

TEST(ArrivalTest, RampsAreTestedInTheirOwnTime) {
  spec::ArrivalSpec ramp = law(ArrivalKind::kPoisson);
  ramp.profile = {{.at = Duration(0), .share = 0.1}, {.at = std::chrono::seconds(200), .share = 2}};
  const results::LevelRecord level = level_of(ramp, 20, 300, 5);
  const ArrivalTest test = test_arrivals(level, ramp, 20);
  EXPECT_TRUE(test.as_ordered()) << test.ks_probability.value_or(-1);
  EXPECT_NEAR(test.ordered_per_s, 20 * (1.05 * 200 + 2 * 100) / 300, 1e-9);
  EXPECT_NEAR(*test.dispersion, 1, 0.3);
  spec::ArrivalSpec flat = ramp;
  flat.profile.clear();
  EXPECT_FALSE(test_arrivals(level, flat, 20).as_ordered());
}

TEST(ArrivalTest, ASmallDistanceIsAcceptedHoweverManyArrivalsShowIt) {
  // 3 % off in the rate: of 60,000 arrivals the test is certain that it is another law, and the distance is 0.01.
  const ArrivalTest test =
      test_arrivals(level_of(law(ArrivalKind::kPoisson), 200, 300, 1), law(ArrivalKind::kPoisson), 206);
  EXPECT_LT(*test.ks_probability, 0.01);
  EXPECT_LT(*test.ks_distance, kAcceptedDistance);
  EXPECT_TRUE(test.as_ordered());
  const std::string text = report::arrival_text(test);
  EXPECT_THAT(text,
              ContainsRegex("Kolmogorov-Smirnov D 0\\.01[0-9] \\(accepted to 0\\.05\\), p [0-9.e-]+: as ordered"));
}

TEST(ArrivalTest, RefusedAndHeldBackArrivalsAreNotAsOrdered) {
  results::LevelRecord level = level_of(law(ArrivalKind::kPoisson), 20, 60, 1);
  const std::size_t all = level.turns.size();
  const ArrivalTest never =
      test_arrivals(level, law(ArrivalKind::kPoisson), 20, workload::HeldBack{.sent_late = 0, .not_sent = all / 20});
  EXPECT_FALSE(never.as_ordered());
  EXPECT_NEAR(*never.scheduled_per_s, 1.05 * *never.sent_per_s, 0.1);
  EXPECT_THAT(report::arrival_text(never), HasSubstr("held back for lack of a place"));
  EXPECT_FALSE(
      test_arrivals(level, law(ArrivalKind::kPoisson), 20, workload::HeldBack{.sent_late = all / 20, .not_sent = 0})
          .as_ordered());
  EXPECT_TRUE(test_arrivals(level, law(ArrivalKind::kPoisson), 20, workload::HeldBack{.sent_late = 1, .not_sent = 1})
                  .as_ordered());
  // Each tenth was refused: it has an id and no turn.
  std::erase_if(level.turns, [](const workload::TurnSample& turn) { return turn.conversation.value() % 10 == 4; });
  spec::ArrivalSpec refuses = law(ArrivalKind::kPoisson);
  refuses.when_full = spec::WhenFull::kRefuse;
  const ArrivalTest refused = test_arrivals(level, refuses, 20);
  EXPECT_EQ(refused.refused, all - level.turns.size());
  EXPECT_FALSE(refused.as_ordered());
  // Where arrivals wait, those ids are of a thread that had sent its share of the requests.
  EXPECT_EQ(test_arrivals(level, law(ArrivalKind::kPoisson), 20, workload::HeldBack{}).refused, 0U);
}

TEST(ArrivalTest, HowManyWaitedForAPlaceFollowsFromAStoredLevel) {
  const auto driven = [](double answer_s) {
    spec::ArrivalSpec ten = law(ArrivalKind::kPoisson);
    ten.max_conversations = 10;
    results::LevelRecord level;
    level.seed = 3;
    level.started = at_ms(1'000);
    level.measure_to = level.started + std::chrono::seconds(60);
    workload::OpenArrivals arrivals(ten, 20, level.seed, level.started);
    std::priority_queue<TimePoint, std::vector<TimePoint>, std::greater<>> ends;
    const auto end_one = [&] {
      arrivals.release(ends.top());
      ends.pop();
    };
    for (TimePoint now = level.started;;) {
      if (const auto due = arrivals.try_start(now)) {
        workload::TurnSample turn;
        turn.conversation = ConversationId(level.turns.size());
        turn.intended = *due;
        turn.sent = now;
        turn.ended = now + from_seconds(answer_s);
        ends.push(turn.ended);
        level.turns.push_back(turn);
        continue;
      }
      const TimePoint next =
          std::min(arrivals.next_start().value_or(TimePoint::max()), ends.empty() ? TimePoint::max() : ends.top());
      if (next > level.measure_to) break;
      now = next;
      while (!ends.empty() && ends.top() <= now) end_one();
    }
    const workload::HeldBack counted{.sent_late = arrivals.held_back(), .not_sent = arrivals.waiting(level.measure_to)};
    EXPECT_EQ(held_back_in(level, ten, 20), counted) << answer_s << " s each";
    EXPECT_EQ(test_arrivals(level, ten, 20, held_back_in(level, ten, 20)).as_ordered(), counted.total() == 0);
    return counted;
  };
  EXPECT_EQ(driven(0.05).total(), 0U);
  const workload::HeldBack some = driven(0.35);
  EXPECT_GT(some.sent_late, 100U);
  EXPECT_LT(some.not_sent, 10U);
  EXPECT_GT(driven(0.7).not_sent, 100U) << "ten places for fourteen";
}

TEST(ArrivalTest, WhatIsSentAtTheBeginningOfVirtualTimeIsSent) {
  results::LevelRecord level;
  level.measure_to = at_ms(59'500);
  for (std::uint64_t id = 0; id < 60; ++id) {
    workload::TurnSample turn;
    turn.conversation = ConversationId(id);
    turn.intended = turn.sent = at_ms(static_cast<std::int64_t>(1'000 * id));
    level.turns.push_back(std::move(turn));
  }
  EXPECT_EQ(test_arrivals(level, law(ArrivalKind::kConstant), 1).share_in_time(), 1);
  level.turns.back().sent = {};
  EXPECT_EQ(test_arrivals(level, law(ArrivalKind::kConstant), 1).sent, 59U);
}

TEST(ArrivalTest, ALateClientIsNotAsOrdered) {
  const ArrivalTest test =
      test_arrivals(level_of(law(ArrivalKind::kPoisson), 20, 60, 1, 5'000), law(ArrivalKind::kPoisson), 20);
  EXPECT_LT(*test.sent_per_s, *test.scheduled_per_s);
  EXPECT_FALSE(test.as_ordered());
  EXPECT_DOUBLE_EQ(test.latest_ms, 5'000);
}

TEST(ArrivalTest, ArrivalsRefusedBehindTheLastAcceptedOneCount) {
  // Five places, and conversations that end after the load: from the sixth on each arrival is refused.
  spec::ArrivalSpec five = law(ArrivalKind::kPoisson);
  five.max_conversations = 5;
  five.when_full = spec::WhenFull::kRefuse;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const std::size_t due = level_of(law(ArrivalKind::kPoisson), 20, 60, seed).turns.size();
    results::LevelRecord level = level_of(law(ArrivalKind::kPoisson), 20, 60, seed);
    level.seed = seed;
    level.turns.resize(5);
    for (workload::TurnSample& turn : level.turns) {
      turn.intended += std::chrono::milliseconds(3);  // the load began a little after its level
      turn.sent += std::chrono::milliseconds(3);
      turn.ended = level.measure_to + std::chrono::seconds(1);
    }
    const ArrivalTest test = test_arrivals(level, five, 20);
    EXPECT_NEAR(static_cast<double>(test.refused), static_cast<double>(due - 5), 1) << "seed " << seed;
    EXPECT_FALSE(test.as_ordered());
    // If they wait, they are never sent, and a stored level does not say how many they are.
    spec::ArrivalSpec wait = five;
    wait.when_full = spec::WhenFull::kWait;
    const ArrivalTest waited = test_arrivals(level, wait, 20);
    EXPECT_EQ(waited.refused, 0U);
    EXPECT_NEAR(static_cast<double>(waited.held_back.not_sent), static_cast<double>(due - 5), 1) << "seed " << seed;
    EXPECT_FALSE(waited.as_ordered());
    EXPECT_EQ(test_arrivals(level, wait, 20, workload::HeldBack{}).held_back.not_sent, 0U);  // who drove it knows
    // As soon as a place is free nothing more is refused, whoever does not come to it.
    level.turns[2].ended = level.turns[4].intended + Duration(1);
    EXPECT_EQ(test_arrivals(level, five, 20).refused, 0U);
    // Of another schedule nothing is known.
    level.turns[2].ended = level.turns[1].ended;
    level.turns[4].intended += std::chrono::seconds(20);
    EXPECT_EQ(test_arrivals(level, five, 20).refused, 0U);
  }
}

}  // namespace
}  // namespace kvist::analysis::arrival_law_test
