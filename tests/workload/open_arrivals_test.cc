#include "kvist/workload/open_arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kvist/workload/load_driver.h"

namespace kvist::workload::open_arrivals_test {
namespace {

using std::chrono::seconds;

constexpr TimePoint kStart{seconds(50)};

spec::ArrivalSpec arrivals(spec::ArrivalKind kind, double variation = 2, std::uint32_t room = 1'000'000) {
  return {.kind = kind, .variation = variation, .max_conversations = room};
}

/// The instants of the first arrivals, in seconds after the start.
std::vector<double> first_arrivals(OpenArrivals open, std::size_t n) {
  std::vector<double> at;
  while (at.size() < n) {
    const TimePoint next = *open.next_start();
    EXPECT_EQ(open.try_start(next), next);
    at.push_back(to_seconds(next - kStart));
  }
  return at;
}

struct Gaps {
  double mean = 0;
  double variation = 0;  // standard deviation over mean
};

Gaps gaps_of(const std::vector<double>& at) {
  const double n = static_cast<double>(at.size());
  const double mean = at.back() / n;
  double squares = 0;
  double before = 0;
  for (const double instant : at) {
    squares += (instant - before - mean) * (instant - before - mean);
    before = instant;
  }
  return {.mean = mean, .variation = std::sqrt(squares / n) / mean};
}

TEST(OpenArrivals, PoissonGapsHaveTheRateAndAVariationOfOne) {
  const Gaps gaps = gaps_of(first_arrivals({arrivals(spec::ArrivalKind::kPoisson), 4, 7, kStart}, 40'000));
  // Standard errors of 40,000 exponential gaps: 0.5 % of the mean, and of the variation 0.7 %.
  EXPECT_NEAR(gaps.mean, 0.25, 0.25 * 0.02);
  EXPECT_NEAR(gaps.variation, 1, 0.03);
}

TEST(OpenArrivals, BurstyGapsHaveTheRateAndTheVariationAskedFor) {
  for (const double variation : {1.0, 2.0, 5.0}) {
    const auto at = first_arrivals({arrivals(spec::ArrivalKind::kBursty, variation), 4, 7, kStart}, 200'000);
    const Gaps gaps = gaps_of(at);
    // The mean's standard error is variation / sqrt(200,000): 1.1 % at 5. That of the variation grows with the fourth
    // moment.
    EXPECT_NEAR(gaps.mean, 0.25, 0.25 * 0.04) << variation;
    EXPECT_NEAR(gaps.variation, variation, 0.06 * variation) << variation;
  }
}

TEST(OpenArrivals, AGammaVariateHasItsMeanAndVariance) {
  for (const double shape : {0.04, 0.25, 0.9, 1.0, 3.5, 40.0}) {
    RandomStream random(11);
    constexpr int kDraws = 200'000;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = gamma_variate(random, shape);
      ASSERT_GE(x, 0);
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, shape, 5 * std::sqrt(shape / kDraws)) << shape;
    const double variance = squares / kDraws - mean * mean;
    const double error_of_variance = std::sqrt((2 * shape * shape + 6 * shape) / kDraws);  // from the fourth moment
    EXPECT_NEAR(variance, shape, 5 * error_of_variance) << shape;
  }
}

TEST(OpenArrivals, FollowFromTheSeedAlone) {
  const spec::ArrivalSpec bursty = arrivals(spec::ArrivalKind::kBursty, 3);
  EXPECT_EQ(first_arrivals({bursty, 2, 5, kStart}, 500), first_arrivals({bursty, 2, 5, kStart}, 500));
  EXPECT_NE(first_arrivals({bursty, 2, 5, kStart}, 500), first_arrivals({bursty, 2, 6, kStart}, 500));

  // Another rate stretches the same pattern.
  const auto slow = first_arrivals({bursty, 1, 5, kStart}, 500);
  const auto fast = first_arrivals({bursty, 10, 5, kStart}, 500);
  for (std::size_t i = 0; i < slow.size(); ++i) EXPECT_NEAR(slow[i], 10 * fast[i], 1e-6);
}

TEST(OpenArrivals, DoNotDependOnWhatIsInFlightOrWhenTheyAreLookedAt) {
  spec::ArrivalSpec poisson = arrivals(spec::ArrivalKind::kPoisson, 2, 3);
  poisson.when_full = spec::WhenFull::kRefuse;
  const auto all = first_arrivals({arrivals(spec::ArrivalKind::kPoisson), 10, 9, kStart}, 100);
  OpenArrivals open(poisson, 10, 9, kStart);
  std::set<double> started;
  std::uint64_t alive = 0;
  for (int second = 1; second <= 9; ++second) {
    while (const auto due = open.try_start(kStart + seconds(second))) {
      started.insert(to_seconds(*due - kStart));
      ++alive;
    }
    ASSERT_LE(alive, 3U);
    for (; alive > 1; --alive) open.release(kStart + seconds(second));
  }
  std::size_t passed = 0;
  for (const double at : all) passed += at <= 9 ? 1 : 0;
  EXPECT_EQ(started.size() + open.refused(), passed);
  EXPECT_GT(open.refused(), 0U);
  for (const double at : started) EXPECT_EQ(std::count(all.begin(), all.end(), at), 1) << at;
}

spec::WorkloadSpec open_workload(std::uint32_t room) {
  spec::WorkloadSpec spec;
  spec.starter_tokens_min = 50;
  spec.starter_tokens_max = 80;
  spec.turns_min = spec.turns_max = 1;
  spec.arrivals = arrivals(spec::ArrivalKind::kPoisson, 2, room);
  return spec;
}

/// Polls at every wake-up for 100 s; each answer takes `answer`. What started, by conversation.
std::map<std::uint64_t, std::string> drive(LoadDriver& driver, Duration answer) {
  std::map<std::uint64_t, std::string> first_messages;
  std::multimap<TimePoint, ConversationId> answers;
  while (true) {
    const TimePoint next = *driver.next_wakeup();
    if (next > kStart + seconds(100)) return first_messages;
    while (!answers.empty() && answers.begin()->first <= next) {
      const auto [at, conversation] = *answers.begin();
      answers.erase(answers.begin());
      EXPECT_TRUE(driver.on_turn_finished(conversation, "yes", TurnOutcome::kSucceeded, at).empty());
    }
    for (const StartTurn& turn : driver.poll(next)) {
      EXPECT_EQ(turn.intended, next);
      first_messages[turn.conversation.value()] = turn.messages[0].content;
      answers.emplace(next + answer, turn.conversation);
    }
  }
}

/// Instants up to an end, with the rate changed on the way.
std::vector<TimePoint> changed_arrivals(OpenArrivals open, const std::vector<std::pair<TimePoint, double>>& rates,
                                        TimePoint end) {
  std::vector<TimePoint> at;
  const auto take = [&](TimePoint until) {
    while (const auto due = open.try_start(until)) at.push_back(*due);
  };
  for (const auto& [instant, rate] : rates) {
    take(instant);
    open.set_rate(rate, instant);
  }
  take(end);
  return at;
}

TEST(OpenArrivals, AChangedRateIsAStepInTheProfile) {
  using spec::ArrivalKind;
  for (const ArrivalKind kind :
       {ArrivalKind::kPoisson, ArrivalKind::kBursty, ArrivalKind::kConstant, ArrivalKind::kBursts}) {
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      SCOPED_TRACE(testing::Message() << "law " << static_cast<int>(kind) << ", seed " << seed);
      const TimePoint first = kStart + std::chrono::milliseconds(20'125);
      const TimePoint second = kStart + std::chrono::milliseconds(40'375);
      const TimePoint end = kStart + seconds(60);
      spec::ArrivalSpec stepped = arrivals(kind);
      stepped.profile = {{.at = first - kStart, .share = 1},
                         {.at = first - kStart, .share = 3},
                         {.at = second - kStart, .share = 3},
                         {.at = second - kStart, .share = 0.5}};
      const auto changed = changed_arrivals({arrivals(kind), 8, seed, kStart}, {{first, 24}, {second, 4}}, end);
      const auto expected = changed_arrivals({stepped, 8, seed, kStart}, {}, end);
      ASSERT_EQ(changed.size(), expected.size());
      ASSERT_GT(changed.size(), 100U);
      for (std::size_t i = 0; i < changed.size(); ++i) {
        EXPECT_LE(std::chrono::abs(changed[i] - expected[i]), std::chrono::nanoseconds(100)) << i;
      }
      // A second poll at the instant of a change, and a change to the same rate, move nothing.
      const auto same = changed_arrivals({arrivals(kind), 8, seed, kStart}, {{first, 8}, {second, 8}}, end);
      const auto unchanged = changed_arrivals({arrivals(kind), 8, seed, kStart}, {}, end);
      ASSERT_EQ(same.size(), unchanged.size());
      for (std::size_t i = 0; i < same.size(); ++i) {
        EXPECT_LE(std::chrono::abs(same[i] - unchanged[i]), std::chrono::nanoseconds(100)) << i;
      }
    }
  }
}

TEST(OpenArrivals, WhatWaitsForAPlaceKeepsItsInstantWhenTheRateChanges) {
  spec::ArrivalSpec one = arrivals(spec::ArrivalKind::kConstant, 2, 1);
  one.when_full = spec::WhenFull::kWait;
  OpenArrivals open(one, 10, 1, kStart);
  EXPECT_EQ(open.try_start(kStart + seconds(1)), kStart);
  EXPECT_EQ(open.waiting(kStart + seconds(1)), 10U);
  open.set_rate(1, kStart + seconds(1));
  EXPECT_EQ(open.waiting(kStart + seconds(1)), 10U);
  for (int i = 1; i <= 10; ++i) {
    open.release(kStart + seconds(1));
    EXPECT_EQ(open.try_start(kStart + seconds(1)), kStart + std::chrono::milliseconds(100) * i);
  }
  open.release(kStart + seconds(1));
  EXPECT_EQ(open.next_start(), kStart + seconds(2));
  EXPECT_EQ(open.held_back(), 9U);  // the last was due when its place became free
}

TEST(OpenArrivals, ALowerLimitTakesEffectAsConversationsEnd) {
  spec::ArrivalSpec three = arrivals(spec::ArrivalKind::kConstant, 2, 3);
  three.when_full = spec::WhenFull::kRefuse;
  OpenArrivals open(three, 10, 1, kStart);
  const auto take = [&](TimePoint now) {
    std::size_t n = 0;
    while (open.try_start(now)) ++n;
    return n;
  };
  EXPECT_EQ(take(kStart + std::chrono::milliseconds(200)), 3U);
  open.set_limit(2, kStart + std::chrono::milliseconds(250));
  open.release(kStart + std::chrono::milliseconds(260));
  EXPECT_EQ(take(kStart + std::chrono::milliseconds(300)), 0U);
  open.set_limit(3, kStart + std::chrono::milliseconds(350));
  EXPECT_EQ(take(kStart + std::chrono::milliseconds(400)), 1U);
  EXPECT_EQ(open.refused(), 1U);
}

TEST(OpenArrivals, ALevelIsStartsPerMinute) {
  LoadDriver driver(open_workload(10'000), 600, 3, kStart);
  const auto started = drive(driver, seconds(1'000));
  EXPECT_NEAR(static_cast<double>(started.size()), 1'000, 5 * std::sqrt(1'000));  // a Poisson count
  EXPECT_EQ(driver.in_flight(), started.size());
  EXPECT_EQ(driver.conversations_started(), started.size());
  EXPECT_EQ(driver.dropped_slots(), 0U);
}

TEST(OpenArrivals, AnIdIsTheSameConversationHoweverManyAreRefused) {
  LoadDriver fast(open_workload(10'000), 600, 3, kStart);
  spec::WorkloadSpec refusing = open_workload(20);
  refusing.arrivals.when_full = spec::WhenFull::kRefuse;
  LoadDriver slow(refusing, 600, 3, kStart);
  const auto all = drive(fast, std::chrono::milliseconds(1));
  const auto some = drive(slow, seconds(5));
  EXPECT_EQ(all.size(), some.size() + slow.dropped_slots());
  EXPECT_LT(some.size(), all.size());
  EXPECT_LE(slow.in_flight(), 20U);
  for (const auto& [id, message] : some) EXPECT_EQ(all.at(id), message) << id;
}

TEST(OpenArrivals, NothingStartsAfterStop) {
  LoadDriver driver(open_workload(10), 600, 3, kStart);
  driver.stop();
  EXPECT_FALSE(driver.next_wakeup().has_value());
  EXPECT_TRUE(driver.poll(kStart + seconds(100)).empty());
}

TEST(Conversation, WithoutSharedStartersEachBeginsWithATextOfItsOwn) {
  spec::WorkloadSpec spec = open_workload(10);
  spec.starters = 0;
  const Dataset none(spec, 1);
  std::set<std::string> texts;
  for (std::uint64_t id = 0; id < 200; ++id) {
    const Conversation conversation(spec, none, 1, ConversationId(id));
    const std::string& text = conversation.messages().at(0).content;
    EXPECT_GE(text.size(), spec.starter_tokens_min);
    EXPECT_LE(text.size(), spec.starter_tokens_max);
    EXPECT_EQ(Conversation(spec, none, 1, ConversationId(id)).messages().at(0).content, text);
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), 200U);
}

TEST(OpenArrivals, ConstantArrivalsAreAtTheirPlacesWithoutDrift) {
  const std::vector<double> at = first_arrivals({arrivals(spec::ArrivalKind::kConstant), 3, 7, kStart}, 30'001);
  EXPECT_DOUBLE_EQ(at.front(), 0);
  EXPECT_NEAR(at.back(), 10'000, 1e-6);
}

TEST(OpenArrivals, BurstsComeAtOneInstantAndKeepTheRate) {
  spec::ArrivalSpec spec = arrivals(spec::ArrivalKind::kBursts);
  spec.burst_size = 5;
  const std::vector<double> at = first_arrivals({spec, 10, 7, kStart}, 50'000);
  std::set<double> instants(at.begin(), at.end());
  EXPECT_EQ(instants.size(), 10'000U);
  EXPECT_NEAR(at.back(), 5'000, 5'000 * 0.04);  // 10,000 exponential gaps: a standard error of 1 %
}

TEST(OpenArrivals, TheScheduleIsTheSameHoweverLateItIsAskedFor) {
  spec::ArrivalSpec spec = arrivals(spec::ArrivalKind::kBursty);
  spec.profile = {{.at = Duration(0), .share = 0.2}, {.at = seconds(20), .share = 2}};
  const std::vector<double> prompt = first_arrivals({spec, 10, 7, kStart}, 500);
  OpenArrivals late(spec, 10, 7, kStart);
  const TimePoint end = kStart + seconds(1'000);
  for (const double instant : prompt) EXPECT_DOUBLE_EQ(to_seconds(*late.try_start(end) - kStart), instant);
}

TEST(OpenArrivals, WhatWaitsForAPlaceKeepsItsInstant) {
  spec::ArrivalSpec spec = arrivals(spec::ArrivalKind::kConstant, 2, 2);
  spec.when_full = spec::WhenFull::kWait;
  OpenArrivals open(spec, 1, 7, kStart);
  EXPECT_EQ(open.try_start(kStart + seconds(10)), kStart);
  EXPECT_EQ(open.try_start(kStart + seconds(10)), kStart + seconds(1));
  EXPECT_EQ(open.try_start(kStart + seconds(10)), std::nullopt);
  EXPECT_EQ(open.next_start(), std::nullopt);
  open.release(kStart + seconds(11));
  EXPECT_EQ(open.next_start(), kStart + seconds(2));
  EXPECT_EQ(open.try_start(kStart + seconds(11)), kStart + seconds(2));
  EXPECT_EQ(open.refused(), 0U);
  EXPECT_EQ(open.held_back(), 1U);
  EXPECT_EQ(open.waiting(kStart + seconds(11)), 9U);  // those of 3 to 11 s
  open.release(kStart + seconds(12));
  EXPECT_EQ(open.waiting(kStart + seconds(12)), 0U);  // a place is free: nothing waits for one
}

TEST(OpenArrivals, WhatWasPolledLateWasNotHeldBack) {
  spec::ArrivalSpec spec = arrivals(spec::ArrivalKind::kConstant, 2, 2);
  spec.when_full = spec::WhenFull::kWait;
  OpenArrivals open(spec, 1, 7, kStart);
  EXPECT_TRUE(open.try_start(kStart + seconds(10)).has_value());
  open.release(kStart + seconds(10));
  EXPECT_TRUE(open.try_start(kStart + seconds(10)).has_value());
  EXPECT_EQ(open.held_back(), 0U);
}

TEST(OpenArrivals, AProfileThatEndsEndsTheArrivals) {
  spec::ArrivalSpec spec = arrivals(spec::ArrivalKind::kConstant);
  spec.profile = {{.at = seconds(10), .share = 1}, {.at = seconds(10), .share = 0}};
  OpenArrivals open(spec, 2, 7, kStart);
  std::size_t n = 0;
  while (open.try_start(kStart + seconds(1'000))) ++n;
  EXPECT_EQ(n, 21U);  // 0, 0.5, ..., 10 s
  EXPECT_EQ(open.next_start(), std::nullopt);
  EXPECT_TRUE(open.is_over());
}

}  // namespace
}  // namespace kvist::workload::open_arrivals_test
