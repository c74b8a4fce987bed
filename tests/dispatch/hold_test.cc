// Requests that wait at the gateway because no worker's cache has room for them.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hold_rig.h"
#include "kvist/dispatch/dispatcher.h"

namespace kvist::dispatch::hold_test {
namespace {

using hold_rig::HoldRig;
using hold_rig::prompt;
using std::chrono::milliseconds;
using std::chrono::seconds;

class HoldTest : public HoldRig, public testing::Test {};

TEST_F(HoldTest, WhatFitsNowhereWaitsAndBeginsWhenThereIsRoom) {
  const auto [first, second] = fill();
  ASSERT_NE(first.decision.worker, second.decision.worker);
  const HoldId id = held(prompt(7, 40));
  EXPECT_EQ(dispatcher_->held(), 1U);
  EXPECT_TRUE(release_after(milliseconds(50)).empty());
  end(first);
  EXPECT_FALSE(release_after(milliseconds(50)).empty()) << "an idle worker takes anything";
  EXPECT_EQ(dispatcher_->held(), 0U);
  EXPECT_FALSE(dispatcher_->drop(id, now_));
  EXPECT_EQ(dispatcher_->counters().held, 1U);
  EXPECT_EQ(dispatcher_->counters().held_time, milliseconds(100));
  EXPECT_EQ(dispatcher_->counters().held_too_long, 0U);
}

TEST_F(HoldTest, AConversationGoesOnWhereItsHistoryIs) {
  const auto [first, second] = fill();
  held(prompt(7, 40));
  const Ticket on = begin(prompt(0, 81));
  EXPECT_EQ(on.decision.worker, first.decision.worker) << "before those who wait for room";
  end(on);
}

TEST_F(HoldTest, WhatFitsBeginsThoughOthersWait) {
  fill();
  held(prompt(7, 40));
  begin(prompt(8, 1));
  EXPECT_EQ(dispatcher_->held(), 1U);
}

TEST_F(HoldTest, NobodyIsHeldWhileTheFleetHasTimeToCompute) {
  fill();
  now_ += seconds(120);
  begin(prompt(7, 90));
  EXPECT_EQ(dispatcher_->counters().held, 0U);
}

TEST_F(HoldTest, NobodyIsHeldWhereNothingIsComputedTwice) {
  fill(1);
  EXPECT_EQ(router_->recomputed_prefill_ms(), 0);
  begin(prompt(7, 40));
}

TEST_F(HoldTest, ARequestWithoutTokensComputesNothingAgain) {
  RequestProfile unread;
  end(begin(unread));
  EXPECT_EQ(router_->recomputed_prefill_ms(), 0);
}

TEST_F(HoldTest, WhatIsComputedAgainIsKnown) {
  keep_busy(1);
  const double once_ms = router_->forecaster().routed_prefill_ms();
  keep_busy(1);
  const double again_ms = router_->forecaster().routed_prefill_ms() - once_ms;
  EXPECT_NEAR(router_->recomputed_prefill_ms() / again_ms, 1, 0.01) << "all but a token of each";
  const double so_far_ms = router_->recomputed_prefill_ms();
  end(begin(prompt(1'000'019, 50)));
  EXPECT_EQ(router_->recomputed_prefill_ms(), so_far_ms) << "the latest are still cached";
}

TEST_F(HoldTest, WhoTakesLessBeginsFirst) {
  const auto [first, second] = fill();
  const HoldId cold = held(prompt(7, 60));
  const HoldId short_one = held(prompt(8, 30));
  end(first);
  const std::vector<Released> released = release_after(milliseconds(50));
  ASSERT_EQ(released.size(), 1U) << "beside it the other does not fit";
  EXPECT_EQ(released[0].id, short_one);
  EXPECT_EQ(released[0].started->held, milliseconds(50));
  EXPECT_TRUE(dispatcher_->drop(cold, now_));
}

TEST_F(HoldTest, WhereNobodyComesBackNothingIsKeptForAnyone) {
  for (std::uint64_t number = 100; number < 400; ++number) {
    const Ticket ticket = begin(prompt(number, 60));
    now_ += milliseconds(10);
    end(ticket);
  }
  EXPECT_LT(router_->recent_prompts().return_share(), 0.05);
  const Ticket one = begin(prompt(1, 60));
  const Ticket two = begin(prompt(2, 60));
  EXPECT_NE(one.decision.worker, two.decision.worker);
  begin(prompt(3, 20));
  begin(prompt(4, 20));
  EXPECT_EQ(dispatcher_->held(), 0U);
}

TEST_F(HoldTest, AfterItsTimeARequestBeginsAnywayButNotAllAtOnce) {
  fill();
  for (std::uint64_t number = 10; number < 20; ++number) held(prompt(number, 40));
  std::size_t begun = release_after(seconds(59)).size();
  EXPECT_EQ(begun, 0U);
  begun += release_after(seconds(1)).size();
  EXPECT_EQ(begun, 1U);
  EXPECT_EQ(dispatcher_->counters().held_too_long, 1U);
  for (int i = 0; i < 10'000 && dispatcher_->held() > 0; ++i) begun += release_after(milliseconds(100)).size();
  EXPECT_EQ(begun, 10U) << "nobody waits for ever";
}

TEST_F(HoldTest, WhereRequestsAreRefusedForTheirWaitTheyAreSoHere) {
  make({.admission = spec::AdmissionSpec{.max_wait = seconds(5)}});
  fill();
  for (std::uint64_t number = 10; number < 14; ++number) held(prompt(number, 40));
  EXPECT_TRUE(release_after(seconds(4)).empty());
  const std::vector<Released> released = release_after(seconds(1));
  ASSERT_EQ(released.size(), 4U);
  ASSERT_FALSE(released[3].started);
  EXPECT_EQ(released[3].started.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(released[3].started.error().message.find("waited 5.0 s, and no worker's cache had room"), std::string::npos)
      << released[3].started.error().message;
  EXPECT_GE(released[3].started.error().retry_after, seconds(1));
  EXPECT_GE(dispatcher_->counters().without_worker.of(Outcome::kRejected), 3U);
}

// Workers whose slots are all taken are not a matter of memory: admission answers at once, as without `hold`.
TEST_F(HoldTest, WhomAdmissionRefusesIsNotHeld) {
  make({.admission = spec::AdmissionSpec{.max_wait = seconds(5)}});
  for (std::uint64_t number = 0; number < 32; ++number) begin(prompt(number, 1));
  const Arrived came = dispatcher_->start_or_hold(prompt(99, 1), now_);
  ASSERT_TRUE(came.started);
  ASSERT_FALSE(*came.started);
  EXPECT_EQ(came.started->error().code, ErrorCode::kResourceExhausted);
  EXPECT_GT(came.started->error().retry_after, seconds(1));
  EXPECT_EQ(dispatcher_->held(), 0U);
}

TEST_F(HoldTest, AtTheEndOfItsTimeARequestIsAnsweredAndNoWorkerBlamed) {
  fill();
  RequestProfile profile = prompt(7, 40);
  profile.deadline = now_ + seconds(30);
  const HoldId id = held(profile);
  held(prompt(8, 40));
  EXPECT_TRUE(release_after(seconds(29)).empty());
  const std::vector<Released> released = release_after(seconds(1));
  ASSERT_EQ(released.size(), 1U) << "the other one has more time";
  EXPECT_EQ(released[0].id, id);
  ASSERT_FALSE(released[0].started);
  EXPECT_EQ(released[0].started.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(released[0].started.error().outcome, Outcome::kTimedOut);
  EXPECT_EQ(dispatcher_->counters().without_worker.of(Outcome::kTimedOut), 1U);
  EXPECT_EQ(dispatcher_->counters().held_time, seconds(30));
  for (std::uint32_t w = 0; w < 2; ++w) EXPECT_EQ(fleet_->worker(WorkerId(w)).health, WorkerHealth::kHealthy);
}

TEST_F(HoldTest, AWorkerIsNotBlamedForWhatCameToItLate) {
  const auto [first, second] = fill();
  held(prompt(7, 40));
  end(first);
  const std::vector<Released> released = release_after(milliseconds(50));
  ASSERT_TRUE(released.size() == 1 && released[0].started);
  const Ticket& late = *released[0].started;
  now_ += seconds(10);
  EXPECT_FALSE(dispatcher_->on_attempt_failed(late.handle, AttemptFailure::kTimedOut, "late", now_));
  EXPECT_EQ(fleet_->worker(late.decision.worker).health, WorkerHealth::kHealthy) << "its prompt takes 1,280 s";
  EXPECT_FALSE(dispatcher_->on_attempt_failed(second.handle, AttemptFailure::kTimedOut, "600 s", now_));
  EXPECT_EQ(fleet_->worker(second.decision.worker).health, WorkerHealth::kSuspect) << "it had all of its time";
}

// Also where admission is off: it is not a worker's queue that lets the client wait.
TEST_F(HoldTest, WhenItsClientWaitsNoLongerARequestIsRefused) {
  for (const bool admits : {false, true}) {
    make({.admission = admits ? std::optional(spec::AdmissionSpec{.max_wait = seconds(60)}) : std::nullopt});
    fill();
    RequestProfile profile = prompt(7, 40);
    profile.admission.first_token_within = seconds(5);
    profile.deadline = now_ + seconds(6);
    held(profile);
    EXPECT_TRUE(release_after(milliseconds(4'900)).empty());
    const std::vector<Released> released = release_after(milliseconds(100));
    ASSERT_EQ(released.size(), 1U);
    ASSERT_FALSE(released[0].started);
    const Refusal& refusal = released[0].started.error();
    EXPECT_EQ(refusal.code, ErrorCode::kResourceExhausted);
    EXPECT_EQ(refusal.outcome, Outcome::kRejected);
    EXPECT_EQ(refusal.message, "the request waited 5.0 s, and its client waits 5.0 s for its first token");
    EXPECT_EQ(dispatcher_->admission().refused().at("")[static_cast<std::size_t>(RefusalReason::kDeadline)], 1U);
  }
}

// At 100 ms per token or more, 40 hundredths of a worker's memory take at least 1,280 s.
TEST_F(HoldTest, WhatIsLeftOfItsTimeHasToBeEnoughForItsPrompt) {
  learn();
  fill();
  RequestProfile profile = prompt(7, 40);
  Duration too_short{};
  Duration enough = seconds(10'000);
  while (enough - too_short > seconds(1)) {
    const Duration time = (too_short + enough) / 2;
    profile.deadline = now_ + time;
    const Arrived came = dispatcher_->start_or_hold(profile, now_);
    (came.started ? too_short : enough) = time;
    if (!came.started) {
      EXPECT_TRUE(dispatcher_->drop(came.held, now_));
      continue;
    }
    ASSERT_FALSE(*came.started) << "there is no use in waiting at all";
    EXPECT_EQ(came.started->error().code, ErrorCode::kDeadlineExceeded);
  }
  EXPECT_GT(enough, seconds(1'280));
  profile.deadline = now_ + enough + seconds(20);
  held(profile);
  EXPECT_TRUE(release_after(seconds(18)).empty());
  EXPECT_EQ(release_after(seconds(4)).size(), 1U);
}

TEST_F(HoldTest, InAnotherModeThoseThatAreHeldBegin) {
  const auto [first, second] = fill();
  held(prompt(7, 40));
  held(prompt(8, 40));
  EXPECT_TRUE(release_after(milliseconds(50)).empty());
  router_->set_mode(spec::RoutingMode::kRoundRobin);
  EXPECT_EQ(release_after(milliseconds(50)).size(), 2U);
}

TEST_F(HoldTest, AClientThatLeavesIsForgotten) {
  fill();
  const HoldId id = held(prompt(7, 40));
  EXPECT_TRUE(dispatcher_->drop(id, now_));
  EXPECT_EQ(dispatcher_->held(), 0U);
  EXPECT_EQ(dispatcher_->counters().without_worker.of(Outcome::kClientGone), 1U);
}

TEST_F(HoldTest, AGatewayThatEndsRefusesThem) {
  fill();
  held(prompt(7, 40));
  held(prompt(8, 40));
  const std::vector<Released> released = dispatcher_->refuse_held({ErrorCode::kUnavailable, "it ends"}, now_);
  ASSERT_EQ(released.size(), 2U);
  EXPECT_EQ(released[0].started.error().message, "it ends");
  EXPECT_EQ(released[0].started.error().outcome, Outcome::kRejected) << "there are workers, which nobody asked";
  EXPECT_EQ(dispatcher_->counters().without_worker.of(Outcome::kRejected), 2U);
  EXPECT_EQ(dispatcher_->held(), 0U);
}

TEST_F(HoldTest, ThoseThatAreHeldCountAsUnderWay) {
  make({.max_in_flight = 4});
  fill();
  held(prompt(7, 40));
  held(prompt(8, 40));
  EXPECT_FALSE(dispatcher_->has_room());
  const Arrived came = dispatcher_->start_or_hold(prompt(9, 40), now_);
  ASSERT_TRUE(came.started);
  EXPECT_FALSE(*came.started);
}

TEST_F(HoldTest, OnlyModeKvHoldsAndOnlyWhatGenerates) {
  fill();
  RequestProfile other = prompt(7, 40);
  other.generates = false;
  EXPECT_TRUE(dispatcher_->start_or_hold(other, now_).started);
  other = prompt(8, 40);
  other.carried = true;
  EXPECT_TRUE(dispatcher_->start_or_hold(other, now_).started) << "its proxy waits for a decision";
  make({}, spec::RoutingMode::kRoundRobin);
  for (std::uint64_t number = 10; number < 20; ++number)
    EXPECT_TRUE(dispatcher_->start_or_hold(prompt(number, 40), now_).started);
}

TEST_F(HoldTest, WithoutAnyWorkerTheyAreToldSo) {
  fill();
  held(prompt(7, 40));
  for (std::uint32_t w = 0; w < 2; ++w)
    for (int i = 0; i < 3; ++i) fleet_->on_failure(WorkerId(w), "down", now_);
  const std::vector<Released> released = release_after(milliseconds(50));
  ASSERT_EQ(released.size(), 1U);
  ASSERT_FALSE(released[0].started);
  EXPECT_EQ(released[0].started.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(released[0].started.error().outcome, Outcome::kNoWorker);
}

TEST_F(HoldTest, WhatWaitedTooLongAndCouldNotBeginLeavesTheNextItsTurn) {
  fill();
  for (std::uint64_t number = 10; number < 30; ++number) held(prompt(number, 40));
  EXPECT_EQ(dispatcher_->under_way(), 22U);
  for (std::uint32_t w = 0; w < 2; ++w)
    for (int i = 0; i < 3; ++i) fleet_->on_failure(WorkerId(w), "down", now_);
  EXPECT_LE(release_after(seconds(60)).size(), HoldQueue::kFirst + HoldQueue::kByTurns + 1) << "a look's, and one more";
  EXPECT_GT(dispatcher_->counters().without_worker.of(Outcome::kNoWorker), HoldQueue::kFirst);
  EXPECT_GE(dispatcher_->held(), 3U);
  for (std::uint32_t w = 0; w < 2; ++w) fleet_->on_success(WorkerId(w), now_);
  const std::vector<Released> released = release_after(milliseconds(50));
  ASSERT_EQ(released.size(), 1U);
  EXPECT_TRUE(released[0].started);
  EXPECT_TRUE(release_after(milliseconds(50)).empty());
}

}  // namespace
}  // namespace kvist::dispatch::hold_test
