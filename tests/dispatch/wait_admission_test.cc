#include "kvist/dispatch/wait_admission.h"

#include <gtest/gtest.h>

#include <optional>

#include "kvist/routing/load_tracker.h"

namespace kvist::dispatch::wait_admission_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class WaitAdmissionTest : public ::testing::Test {
 protected:
  // A worker of 16 slots, of which all are taken, where a request waits so long for one.
  static routing::Candidate waiting(double wait_ms, std::uint32_t requests = 16) {
    routing::Candidate candidate{
        .worker = WorkerId(0), .limits = {.max_batch_size = 16}, .load = {.requests = requests}};
    candidate.forecast.slot_wait_ms = wait_ms;
    candidate.forecast.ttft_ms = wait_ms + 200;
    candidate.forecast.has_slot = requests < 16;
    return candidate;
  }
  bool admits(double wait_ms, const AdmissionProfile& profile = {}) { return admits(waiting(wait_ms), profile); }
  bool admits(const routing::Candidate& candidate, const AdmissionProfile& profile = {}) {
    WaitAdmission::Check check = admission_.check(profile, now_);
    if (check.admits(candidate)) return true;
    last_ = admission_.refuse(check);
    return false;
  }
  void let_it_stand() {
    for (int i = 0; i < 50; ++i, now_ += milliseconds(100)) (void)admits(5'000);
    ASSERT_EQ(admission_.standing(), 1U);
  }

  explicit WaitAdmissionTest(std::optional<Duration> standing_wait = {})
      : spec_{.max_wait = seconds(10), .standing_wait = standing_wait} {}

  const AdmissionProfile anyone_;
  spec::AdmissionSpec spec_;
  routing::LoadTracker loads_{1};
  routing::Forecaster forecaster_{loads_, 1, {}, 16};
  WaitAdmission admission_{spec_, forecaster_, 1};
  TimePoint now_{seconds(100)};
  Refusal last_{{}, Outcome::kRejected};
};

/// The wait of a standing queue does not depend on how many were refused before.
class StandingQueueTest : public WaitAdmissionTest {
 protected:
  StandingQueueTest() : WaitAdmissionTest(milliseconds(400)) {}
};

TEST_F(WaitAdmissionTest, ABurstMayWaitUpToTheBound) {
  EXPECT_TRUE(admits(9'900));
  EXPECT_FALSE(admits(12'500));
  EXPECT_EQ(last_.code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(last_.retry_after, seconds(3)) << "when the wait is short enough, rounded up";
  EXPECT_NE(last_.message.find("12.5 s"), std::string::npos) << last_.message;
  EXPECT_FALSE(admits(1e9));
  EXPECT_EQ(last_.retry_after, WaitAdmission::kLongestRetryAfter);
  EXPECT_EQ(admission_.refused().at("")[static_cast<std::size_t>(RefusalReason::kWait)], 2U);
}

// Whether the oldest prompt holds up the others shows with one of them, or never.
TEST_F(WaitAdmissionTest, OneAtATimeIsLetInBehindAPromptThatMayHoldUpNobody) {
  const auto route = [&](std::uint64_t id) {
    routing::RoutedRequest request{.id = RequestId(id),
                                   .worker = WorkerId(0),
                                   .prompt_tokens = 100'000,
                                   .uncached_tokens = 100'000,
                                   .streams = true};
    forecaster_.on_routed(request, {}, {}, 0, now_);
    return request;
  };
  routing::RoutedRequest hangs = route(1);
  EXPECT_FALSE(admits(60'000, {.first_token_within = seconds(1)}));
  EXPECT_FALSE(admits(60'000)) << "it has only just come";
  now_ += milliseconds(1'100);
  EXPECT_FALSE(admits(60'000, {.priority = 3})) << "whose own bound is shorter";
  EXPECT_FALSE(admits(60'000, {.first_token_within = seconds(1)}));
  EXPECT_TRUE(admits(60'000));
  routing::RoutedRequest probe = route(2);
  int let_in = 0;
  for (int i = 0; i < 1'000; ++i, now_ += milliseconds(100)) {
    if (!admits(60'000)) continue;
    (void)route(static_cast<std::uint64_t>(10 + i));
    ++let_in;
  }
  EXPECT_GE(let_in, 5);
  EXPECT_LE(let_in, 15) << "of a thousand in 100 s, ever less often";
  forecaster_.on_first_token(probe, now_);
  now_ += milliseconds(100);
  EXPECT_NE(forecaster_.prompts(WorkerId(0)).oldest_stream(now_)->request, hangs.id);
}

TEST_F(WaitAdmissionTest, TheWaitsOfABurstDoNotDecideWhatIsThoughtOfTheShortOnesBehindIt) {
  constexpr double kOwnMs = 200;
  for (int i = 0; i < 200; ++i) admission_.on_first_token(5'000, 5'000 + kOwnMs, 5'000 + kOwnMs);
  // The short ones turn out to be three times as long as forecast.
  for (int i = 0; i < 100; ++i) admission_.on_first_token(40, 40 + kOwnMs, 120 + kOwnMs);
  EXPECT_GE(admission_.correction().of_short(), 2.5);
  EXPECT_NEAR(admission_.correction().beyond(), 1, 0.01);
  EXPECT_TRUE(admits(9'800)) << "and no burst is refused for it";
  let_it_stand();
  EXPECT_TRUE(admits(30));
  EXPECT_FALSE(admits(45)) << "which will be more than 100, where most are refused";
}

TEST_F(StandingQueueTest, AStandingQueueIsKeptShortUntilItHasBeenShortForAWhile) {
  let_it_stand();
  EXPECT_FALSE(admits(1'000));
  EXPECT_TRUE(admits(350));
  now_ += milliseconds(500);
  EXPECT_FALSE(admits(1'000)) << "a short moment without a queue is not its end";
  for (int i = 0; i < 15; ++i, now_ += seconds(1)) EXPECT_TRUE(admits(0));
  EXPECT_TRUE(admits(1'000));
  EXPECT_EQ(admission_.standing(), 0U);
}

TEST_F(StandingQueueTest, AQueueIsOverWhenItsWorkerIsIdle) {
  let_it_stand();
  EXPECT_FALSE(admits(1'000));
  EXPECT_TRUE(admits(waiting(0, 0)));
  EXPECT_EQ(admission_.standing(), 0U);
  EXPECT_TRUE(admits(1'000)) << "as after any time without requests";
}

TEST_F(StandingQueueTest, ALongerQueueStandsSooner) {
  const auto looks_until_it_stands = [&](double wait_ms) {
    int looks = 0;
    for (; admission_.standing() == 0 && looks < 10'000; ++looks, now_ += milliseconds(100)) (void)admits(wait_ms);
    for (int i = 0; i < 50; ++i, now_ += seconds(1)) (void)admits(0);
    return looks;
  };
  EXPECT_NEAR(looks_until_it_stands(4'400), 31, 2) << "10 times too long: 3 s";
  EXPECT_NEAR(looks_until_it_stands(800), 300, 12) << "twice as long: 30 s";
  EXPECT_EQ(looks_until_it_stands(390), 10'000) << "never";
}

/// Requests whose first token takes so long without a wait, some of them refused.
class RefusedShareTest : public WaitAdmissionTest {
 protected:
  void ask(double share_refused, double own_ms) {
    for (int i = 0; i < 1'000; ++i, now_ += milliseconds(50)) {
      WaitAdmission::Check check = admission_.check(anyone_, now_);
      routing::Candidate candidate = waiting(i % 100 < 100 * share_refused ? 60'000 : 0);
      candidate.forecast.ttft_ms = candidate.forecast.slot_wait_ms + own_ms;
      if (!check.admits(candidate)) (void)admission_.refuse(check);
    }
  }
};

TEST_F(RefusedShareTest, TheMoreAreRefusedTheShorterAStandingQueueMayBe) {
  ask(0.1, 200);
  EXPECT_NEAR(admission_.standing_wait_ms(), 400, 1e-6) << "twice the time to first token without a wait";
  ask(0.3, 200);
  EXPECT_NEAR(admission_.standing_wait_ms(), 400, 1e-6) << "which is what 1.4 times the capacity has to refuse";
  ask(0.9, 200);
  EXPECT_NEAR(admission_.standing_wait_ms(), 100, 1e-6);
  ask(0.1, 200);
  EXPECT_NEAR(admission_.standing_wait_ms(), 400, 1e-6);
}

TEST_F(RefusedShareTest, OnFastEnginesAQueueMayBeAsLongAsForecastsAreWrong) {
  ask(0.1, 15);
  EXPECT_EQ(admission_.standing_wait_ms(), 200);
  ask(0.9, 15);
  EXPECT_EQ(admission_.standing_wait_ms(), 50);
}

// A request that is held is tried many times.
TEST_F(WaitAdmissionTest, ATryOfAHeldRequestIsNotAnotherRequest) {
  WaitAdmission admission(spec::AdmissionSpec{.max_wait = seconds(10)}, forecaster_, 1);
  WaitAdmission::Check first = admission.check(anyone_, now_);
  EXPECT_TRUE(first.admits(waiting(0)));
  ASSERT_EQ(admission.standing_wait_ms(), 400);
  for (int i = 0; i < 100; ++i) {
    WaitAdmission::Check again = admission.check(anyone_, now_, now_);
    routing::Candidate cold = waiting(0);
    cold.forecast.ttft_ms = 20'000;
    EXPECT_TRUE(again.admits(cold));
  }
  EXPECT_EQ(admission.standing_wait_ms(), 400);
  EXPECT_EQ(admission.wait_ms(), 0);
}

TEST_F(WaitAdmissionTest, WhatAHeldRequestWaitedIsOfItsClientsTime) {
  const AdmissionProfile profile{.first_token_within = seconds(5)};
  const auto admits_after = [&](Duration waited) {
    WaitAdmission::Check check = admission_.check(profile, now_, now_ - waited);
    if (check.admits(waiting(1'000))) return true;
    last_ = admission_.refuse(check);
    return false;
  };
  EXPECT_TRUE(admits_after(milliseconds(3'700))) << "1 s more, and 200 ms of its own";
  EXPECT_FALSE(admits_after(milliseconds(3'900)));
  EXPECT_EQ(admission_.refused().at("")[static_cast<std::size_t>(RefusalReason::kDeadline)], 1U);
}

// As at a load below the capacity, where a queue comes and goes.
TEST_F(StandingQueueTest, AQueueThatPassesDoesNotStand) {
  for (int i = 0; i < 200; ++i) {
    for (int k = 0; k < 10; ++k, now_ += milliseconds(100)) EXPECT_TRUE(admits(1'200));
    for (int k = 0; k < 30; ++k, now_ += milliseconds(100)) EXPECT_TRUE(admits(100));
  }
}

TEST_F(StandingQueueTest, AQueueThatNobodyAskedForIsNotKnownToHaveBeenLong) {
  EXPECT_TRUE(admits(5'000));
  now_ += seconds(1'000);
  EXPECT_TRUE(admits(5'000));
  EXPECT_EQ(admission_.standing(), 0U);
}

// What goes on with a cached history needs little of the worker's time, what begins anew much.
TEST_F(StandingQueueTest, WhoNeedsLittleMayWaitLongerInAStandingQueue) {
  const auto with_prefill = [](double wait_ms, double prefill_ms) {
    routing::Candidate candidate = waiting(wait_ms);
    candidate.forecast.prefill_ms = prefill_ms;
    candidate.forecast.ttft_ms = wait_ms + 200;
    return candidate;
  };
  for (int i = 0; i < 100; ++i, now_ += milliseconds(100)) (void)admits(with_prefill(5'000, 100));
  ASSERT_EQ(admission_.standing(), 1U);
  EXPECT_TRUE(admits(with_prefill(390, 100)));
  EXPECT_FALSE(admits(with_prefill(420, 100)));
  EXPECT_TRUE(admits(with_prefill(1'400, 50))) << "half of the work, four times the wait";
  EXPECT_FALSE(admits(with_prefill(1'800, 50)));
  EXPECT_TRUE(admits(with_prefill(9'900, 1)));
  EXPECT_FALSE(admits(with_prefill(12'500, 1))) << "never more than max_wait";
  EXPECT_FALSE(admits(with_prefill(120, 1'000)));
  EXPECT_TRUE(admits(with_prefill(90, 1'000))) << "a quarter at least";
}

/// A request that is turned down by the router's choice, where it would wait for 15 s.
class OtherWorkerTest : public WaitAdmissionTest {
 protected:
  struct There {
    double prefill_ms = 0;
    double wait_ms = 0;
    std::uint32_t requests = 16;
    double choice_wait_ms = 15'000;
  };
  // Its history is cached at the choice.
  bool takes(const There& there) {
    WaitAdmission::Check check = admission_.check(profile_, now_);
    EXPECT_FALSE(check.admits(candidate(0, {.prefill_ms = 300, .wait_ms = there.choice_wait_ms})));
    check.on_turned_down({.prompt_tokens = 1'000,
                          .shared_tokens = shared_tokens_,
                          .sharers = sharers_,
                          .copies = copies_,
                          .recomputed = recomputed_,
                          .weighed = weighed_});
    if (check.admits(candidate(1, there))) return true;
    last_ = admission_.refuse(check);
    return false;
  }
  std::uint32_t shared_tokens_ = 0;  // of 1,000
  std::uint32_t sharers_ = 99;
  std::uint32_t copies_ = 0;
  double recomputed_ = 0;
  bool weighed_ = false;

 private:
  static routing::Candidate candidate(std::uint32_t worker, const There& there) {
    routing::Candidate candidate = waiting(there.wait_ms, there.requests);
    candidate.worker = WorkerId(worker);
    candidate.forecast.prefill_ms = there.prefill_ms;
    candidate.forecast.ttft_ms = there.wait_ms + there.prefill_ms + 200;
    return candidate;
  }

  routing::LoadTracker loads_{2};
  routing::Forecaster forecaster_{loads_, 2, {}, 16};
  WaitAdmission admission_{spec_, forecaster_, 2};

 protected:
  AdmissionProfile profile_;
};

TEST_F(OtherWorkerTest, TakesWhatCostsLittleThere) {
  EXPECT_TRUE(takes({.prefill_ms = 550}));
  EXPECT_TRUE(takes({.prefill_ms = 550, .wait_ms = 9'000}));
}

TEST_F(OtherWorkerTest, IsIdleIfThePolicyHasWeighedTheWait) {
  weighed_ = true;
  EXPECT_FALSE(takes({.prefill_ms = 300})) << "it costs everybody more there, or it would have been the choice";
  EXPECT_NE(last_.message.find("15.0 s"), std::string::npos) << last_.message;
  EXPECT_TRUE(takes({.prefill_ms = 5'000, .requests = 0}));
  profile_.priority = 1;
  EXPECT_FALSE(takes({.prefill_ms = 300})) << "its own bound is shorter, but 15 s are too long for anybody";
}

TEST_F(OtherWorkerTest, IsAnyWithAFreeSlotWhileNothingWasLearned) {
  weighed_ = true;
  EXPECT_TRUE(takes({.prefill_ms = 300, .wait_ms = 15'000, .requests = 1}));
}

TEST_F(OtherWorkerTest, MayBeAnyForAReasonThatIsNotTheWait) {
  weighed_ = true;
  profile_.first_token_within = std::chrono::seconds(10);
  EXPECT_TRUE(takes({.prefill_ms = 300, .wait_ms = 100, .choice_wait_ms = 9'900}))
      << "nobody else would be refused at the choice";
  EXPECT_FALSE(takes({.prefill_ms = 300, .wait_ms = 100})) << "15 s are too long for anybody";
}

TEST_F(OtherWorkerTest, DoesNotComputeALongHistoryAnew) {
  EXPECT_FALSE(takes({.prefill_ms = 5'000}));
  EXPECT_NE(last_.message.find("15.0 s"), std::string::npos) << "the wait at its own worker: " << last_.message;
  EXPECT_TRUE(takes({.prefill_ms = 5'000, .requests = 0})) << "unless it has nothing else to do";
  shared_tokens_ = 880;
  EXPECT_FALSE(takes({.prefill_ms = 5'100}));
  shared_tokens_ = 890;
  EXPECT_TRUE(takes({.prefill_ms = 5'000})) << "or others want most of it there, too";
}

// 5 s of prefill, of which all but 550 ms are shared; half of a copy is paid by those who share it now.
TEST_F(OtherWorkerTest, MakesAFurtherCopyWhereItServesMany) {
  shared_tokens_ = 890;
  sharers_ = 9;
  EXPECT_FALSE(takes({.prefill_ms = 5'000})) << "a tenth of a half of 4,450 ms, and 550";
  EXPECT_TRUE(takes({.prefill_ms = 3'600})) << "160 ms, and 396";
  copies_ = 1;
  EXPECT_FALSE(takes({.prefill_ms = 3'600})) << "twice as much: each copy is one of two";
  copies_ = 100;
  EXPECT_FALSE(takes({.prefill_ms = 1'100})) << "half of 979 ms, and 121";
  EXPECT_TRUE(takes({.prefill_ms = 1'000}));
}

TEST_F(OtherWorkerTest, TakesNoMoreThanTheChoiceWhereWhatItWouldEvictIsMissed) {
  recomputed_ = 0.5;
  EXPECT_FALSE(takes({.prefill_ms = 550}));
  EXPECT_TRUE(takes({.prefill_ms = 300}));
  EXPECT_TRUE(takes({.prefill_ms = 5'000, .requests = 0}));
  recomputed_ = 0.001;
  EXPECT_TRUE(takes({.prefill_ms = 550})) << "hardly any is";
}

TEST_F(WaitAdmissionTest, AnIdleWorkerTakesEverything) {
  let_it_stand();
  EXPECT_TRUE(admits(waiting(60'000, 0), {.priority = 9, .first_token_within = milliseconds(1)}));
}

TEST_F(WaitAdmissionTest, AColdWorkerWithAFreeSlotTakesEverything) {
  EXPECT_TRUE(admits(waiting(60'000, 15)));
  EXPECT_FALSE(admits(waiting(60'000, 16)));
}

TEST_F(WaitAdmissionTest, AClientsDeadlineCountsForTheFirstTokenAsAWhole) {
  EXPECT_TRUE(admits(750, {.first_token_within = seconds(1)}));
  EXPECT_FALSE(admits(850, {.first_token_within = seconds(1)})) << "it takes 200 ms itself";
  EXPECT_FALSE(admits(20'000, {.first_token_within = seconds(60)})) << "it allows no longer wait";
  EXPECT_EQ(admission_.refused().at("")[static_cast<std::size_t>(RefusalReason::kDeadline)], 1U);
}

TEST_F(WaitAdmissionTest, PrioritiesWaitLessOrLonger) {
  EXPECT_FALSE(admits(6'000, {.key_class = "batch", .priority = 1}));
  EXPECT_TRUE(admits(4'000, {.priority = 1}));
  EXPECT_TRUE(admits(14'000, {.priority = -1}));
  EXPECT_FALSE(admits(21'000, {.priority = -1'000}));
  EXPECT_EQ(admission_.refused().at("batch")[static_cast<std::size_t>(RefusalReason::kPriority)], 1U);
}

TEST_F(WaitAdmissionTest, SlotsAreKeptForBetterPrioritiesThatCome) {
  let_it_stand();
  const AdmissionProfile later{.priority = 1};
  EXPECT_FALSE(admits(waiting(0, 15), later)) << "requests of priority 0 come";
  EXPECT_TRUE(admits(waiting(0, 14), later));
  EXPECT_TRUE(admits(waiting(0, 15)));
  for (int i = 0; i < 25; ++i, now_ += milliseconds(500)) (void)admits(5'000, later);
  EXPECT_TRUE(admits(waiting(0, 15), later)) << "they come no more";
}

TEST_F(WaitAdmissionTest, AKeyOverItsShareIsRefusedFirst) {
  const AdmissionProfile heavy{.tenant = {.id = 1}, .key_class = "gold"};
  const AdmissionProfile light{.tenant = {.id = 2}};
  EXPECT_TRUE(admits(9'000, heavy));
  admission_.charge(heavy.tenant, 10'000, now_);
  EXPECT_TRUE(admits(9'000, heavy)) << "nobody else wants anything";
  EXPECT_TRUE(admits(9'000, light));
  EXPECT_FALSE(admits(9'000, heavy));
  EXPECT_EQ(admission_.refused().at("gold")[static_cast<std::size_t>(RefusalReason::kShare)], 1U);
  let_it_stand();
  EXPECT_TRUE(admits(9'000, light)) << "the queue is not of its making";
}

TEST_F(WaitAdmissionTest, MeasuredWaitsCorrectTheForecast) {
  EXPECT_EQ(admission_.correction().beyond(), 1);
  for (int i = 0; i < 200; ++i) admission_.on_first_token(1'000, 1'200, 2'200);
  EXPECT_NEAR(admission_.correction().beyond(), 2, 0.05);
  EXPECT_FALSE(admits(6'000));
  for (int i = 0; i < 1'000; ++i) admission_.on_first_token(1'000, 1'200, 100);
  EXPECT_TRUE(admits(12'000));
  EXPECT_FALSE(admits(21'000)) << "at most by half";
}

TEST_F(WaitAdmissionTest, ClassesAreBounded) {
  for (int i = 0; i < 1'000; ++i) (void)admits(1e6, {.key_class = "class-" + std::to_string(i)});
  EXPECT_LE(admission_.refused().size(), WaitAdmission::kMostClasses + 1);
}

}  // namespace
}  // namespace kvist::dispatch::wait_admission_test
