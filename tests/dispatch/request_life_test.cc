#include "kvist/dispatch/request_life.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::dispatch::request_life_test {
namespace {

constexpr TimePoint kDeadline{std::chrono::seconds(600)};

routing::Decision to(std::uint32_t worker) {
  routing::Decision decision;
  decision.worker = WorkerId(worker);
  return decision;
}

/// A life whose first attempt is at worker 0.
RequestLife begun_life() {
  RequestLife life(kDeadline);
  EXPECT_EQ(life.on_routed(to(0)).attempt->worker, WorkerId(0));
  return life;
}

TEST(RequestLife, ACompleteAnswerIsPassedOn) {
  RequestLife life = begun_life();
  EXPECT_EQ(life.time_left(TimePoint(std::chrono::seconds(10))), std::chrono::seconds(590));
  EXPECT_EQ(life.on_status(200).answer, LifeAnswer::kPassOn);
  life.on_begun();
  EXPECT_TRUE(life.counts());
  const LifeActions end = life.on_ended();
  EXPECT_EQ(end.answer, LifeAnswer::kEnd);
  EXPECT_EQ(end.over, Outcome::kCompleted);
  EXPECT_TRUE(life.is_over());
}

TEST(RequestLife, WhoServedItIsTheWorkerOfTheAnswer) {
  RequestLife life = begun_life();
  EXPECT_EQ(life.on_served_by(WorkerId(0)).report, LifeReport::kNothing) << "the one that was chosen";
  const LifeActions moved = life.on_served_by(WorkerId(2));
  EXPECT_EQ(moved.report, LifeReport::kServedBy);
  EXPECT_EQ(moved.served_by, WorkerId(2));
  EXPECT_EQ(moved.doubt, WorkerId(0));
  RequestLife unknown = life;
  EXPECT_EQ(life.on_rerouted(to(2)).attempt->worker, WorkerId(2));
  EXPECT_EQ(life.on_status(200).answer, LifeAnswer::kPassOn);
  EXPECT_EQ(life.decision().worker, WorkerId(2));
  // A worker that is gone: the answer is taken all the same.
  EXPECT_FALSE(unknown.on_rerouted(std::nullopt).over);
  EXPECT_EQ(unknown.on_status(200).answer, LifeAnswer::kPassOn);
}

/// Statuses, their report while another worker may be tried, and the outcome if none is left.
struct StatusCase {
  int status;
  std::optional<AttemptFailure> failure;
  Outcome outcome;
  bool doubt;
};

class RequestLifeStatus : public ::testing::TestWithParam<StatusCase> {};

TEST_P(RequestLifeStatus, AsksAnotherWorkerOrPassesOn) {
  const StatusCase& expected = GetParam();
  RequestLife life = begun_life();
  LifeActions actions = life.on_status(expected.status);
  if (expected.failure) {
    EXPECT_EQ(actions.report, LifeReport::kAttemptFailed);
    EXPECT_EQ(actions.failure, *expected.failure);
    EXPECT_EQ(actions.doubt.has_value(), expected.doubt);
    EXPECT_EQ(actions.answer, LifeAnswer::kNothing) << "nothing goes out before it is known whether there is another";
    RequestLife other = life;
    const LifeActions retry = other.on_rerouted(to(1));
    ASSERT_TRUE(retry.attempt);
    EXPECT_EQ(retry.attempt->worker, WorkerId(1));
    EXPECT_EQ(other.on_status(200).answer, LifeAnswer::kPassOn);
    actions = life.on_rerouted(std::nullopt);
    EXPECT_FALSE(life.counts()) << "the attempt is over for the router";
  }
  EXPECT_EQ(actions.answer, LifeAnswer::kPassOn);
  EXPECT_FALSE(actions.over);
  EXPECT_EQ(life.on_ended().over, expected.outcome);
}

INSTANTIATE_TEST_SUITE_P(
    Statuses, RequestLifeStatus,
    ::testing::Values(StatusCase{200, std::nullopt, Outcome::kCompleted, false},
                      StatusCase{302, AttemptFailure::kGarbage, Outcome::kWorkerError, true},
                      StatusCase{400, std::nullopt, Outcome::kRefused, false},
                      StatusCase{401, AttemptFailure::kUnauthorized, Outcome::kRefused, false},
                      StatusCase{403, AttemptFailure::kUnauthorized, Outcome::kRefused, false},
                      StatusCase{404, AttemptFailure::kWrongModel, Outcome::kRefused, true},
                      StatusCase{413, std::nullopt, Outcome::kRefused, false},
                      StatusCase{422, std::nullopt, Outcome::kRefused, false},
                      StatusCase{429, AttemptFailure::kBackPressure, Outcome::kBackPressure, false},
                      StatusCase{500, AttemptFailure::kServerError, Outcome::kWorkerError, true},
                      StatusCase{501, std::nullopt, Outcome::kWorkerError, false},
                      StatusCase{502, AttemptFailure::kServerError, Outcome::kWorkerError, true},
                      StatusCase{503, AttemptFailure::kBackPressure, Outcome::kBackPressure, true},
                      StatusCase{504, AttemptFailure::kServerError, Outcome::kWorkerError, true},
                      StatusCase{505, std::nullopt, Outcome::kWorkerError, false},
                      StatusCase{520, AttemptFailure::kServerError, Outcome::kWorkerError, true},
                      StatusCase{529, AttemptFailure::kBackPressure, Outcome::kBackPressure, false}),
    [](const auto& one) { return std::to_string(one.param.status); });

TEST(RequestLife, AnAdapterThatIsGoneIsLookedForElsewhereAndTheListAskedForAgain) {
  RequestLife life(TimePoint(std::chrono::hours(1)), false, RequestScope::kAdapter);
  (void)life.on_routed(to(0));
  const LifeActions gone = life.on_status(404);
  EXPECT_EQ(gone.failure, AttemptFailure::kNoAdapter);
  EXPECT_EQ(gone.doubt, WorkerId(0)) << "its list of models is read again with its health";
  EXPECT_EQ(life.on_rerouted(to(1)).attempt->worker, WorkerId(1)) << "a refusal is no execution";
  (void)life.on_status(404);
  EXPECT_EQ(life.on_rerouted(std::nullopt).answer, LifeAnswer::kPassOn);
  EXPECT_EQ(life.on_ended().over, Outcome::kRefused);
}

TEST(RequestLife, AConnectionThatFailsBeforeTheAnswerIsTriedElsewhere) {
  RequestLife life = begun_life();
  const LifeActions lost = life.on_lost(false, "refused");
  EXPECT_EQ(lost.report, LifeReport::kAttemptFailed);
  EXPECT_EQ(lost.failure, AttemptFailure::kTransport);
  EXPECT_EQ(lost.problem, "refused");
  EXPECT_EQ(lost.doubt, WorkerId(0));
  EXPECT_TRUE(lost.abandon);
  EXPECT_EQ(life.on_rerouted(to(2)).attempt->worker, WorkerId(2));
  EXPECT_EQ(life.on_lost(false, "reset").doubt, WorkerId(2));
  const LifeActions end = life.on_rerouted(std::nullopt);
  EXPECT_EQ(end.answer, LifeAnswer::kError);
  EXPECT_EQ(end.error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(end.error.message, "no worker could answer the request");
  EXPECT_EQ(end.over, Outcome::kUpstreamFailed);
}

TEST(RequestLife, ADeadlineThatPassesBeforeTheAnswerEndsIt) {
  RequestLife life = begun_life();
  EXPECT_EQ(life.on_lost(true, "600 s").failure, AttemptFailure::kTimedOut);
  const LifeActions end = life.on_rerouted(std::nullopt);
  EXPECT_EQ(end.error.code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(end.over, Outcome::kTimedOut);
}

TEST(RequestLife, AFailureAfterTheAnswerBeganEndsItWithAnError) {
  RequestLife life = begun_life();
  (void)life.on_status(200);
  life.on_begun();
  const LifeActions end = life.on_lost(false, "reset");
  EXPECT_EQ(end.report, LifeReport::kStreamBroken);
  EXPECT_EQ(end.doubt, WorkerId(0));
  EXPECT_TRUE(end.abandon);
  EXPECT_EQ(end.answer, LifeAnswer::kBreakOff);
  EXPECT_EQ(end.error.message, "the worker broke off its answer");
  EXPECT_EQ(end.over, Outcome::kBrokenStream);
}

TEST(RequestLife, ADeadlineThatPassesWithinTheAnswerIsNotTheWorkersFailure) {
  RequestLife life = begun_life();
  (void)life.on_status(200);
  life.on_begun();
  const LifeActions end = life.on_lost(true, "600 s");
  EXPECT_EQ(end.report, LifeReport::kNothing);
  EXPECT_FALSE(end.doubt);
  EXPECT_TRUE(end.abandon);
  EXPECT_EQ(end.answer, LifeAnswer::kBreakOff);
  EXPECT_EQ(end.over, Outcome::kTimedOut);
}

/// A life whose request may have effects, at worker 0.
RequestLife life_of_request_with_effects() {
  RequestLife life(kDeadline, false);
  EXPECT_TRUE(life.on_routed(to(0)).attempt);
  return life;
}

TEST(RequestLife, WhatMayHaveEffectsIsNotRepeated) {
  RequestLife life = life_of_request_with_effects();
  LifeActions end = life.on_lost(false, "reset", true);
  EXPECT_EQ(end.report, LifeReport::kStreamBroken) << "the worker failed all the same";
  EXPECT_EQ(end.doubt, WorkerId(0));
  EXPECT_EQ(end.answer, LifeAnswer::kError);
  EXPECT_EQ(end.over, Outcome::kUpstreamFailed);

  life = life_of_request_with_effects();
  end = life.on_lost(true, "600 s", true);
  EXPECT_EQ(end.error.code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(end.over, Outcome::kTimedOut);

  life = life_of_request_with_effects();
  EXPECT_EQ(life.on_status(504).answer, LifeAnswer::kPassOn);

  life = life_of_request_with_effects();
  EXPECT_FALSE(life.on_worker_stalled(WorkerId(0)).asks());
}

TEST(RequestLife, WhatMayHaveEffectsGoesElsewhereIfItCannotHaveBegun) {
  RequestLife life = life_of_request_with_effects();
  EXPECT_EQ(life.on_lost(false, "refused", false).report, LifeReport::kAttemptFailed);
  EXPECT_TRUE(life.on_rerouted(to(1)).attempt);
  EXPECT_EQ(life.on_status(503).report, LifeReport::kAttemptFailed);
}

TEST(RequestLife, AnErrorFrameIsAFailureBeforeTheAnswerAndRaisesDoubtWithinIt) {
  RequestLife life = begun_life();
  (void)life.on_status(200);
  EXPECT_EQ(life.on_error_frame("engine died").failure, AttemptFailure::kServerError);
  (void)life.on_rerouted(to(1));
  (void)life.on_status(200);
  life.on_begun();
  const LifeActions within = life.on_error_frame("engine died");
  EXPECT_EQ(within.report, LifeReport::kStreamError);
  EXPECT_EQ(within.doubt, WorkerId(1));
  EXPECT_EQ(within.answer, LifeAnswer::kNothing) << "the frame itself goes on as the worker wrote it";
  EXPECT_EQ(life.on_error_frame("again").report, LifeReport::kNothing);
  EXPECT_EQ(life.on_ended(true).over, Outcome::kWorkerError);
}

TEST(RequestLife, AnErrorFrameThatNoRetryCanFixIsPassedOn) {
  RequestLife life = begun_life();
  (void)life.on_status(200);
  (void)life.on_error_frame("engine died");
  EXPECT_EQ(life.on_rerouted(std::nullopt).answer, LifeAnswer::kPassOn);
  EXPECT_FALSE(life.counts());
  EXPECT_EQ(life.on_ended(true).over, Outcome::kWorkerError);
}

TEST(RequestLife, TheFailedAttemptWhoseAnswerIsPassedOnIsNotReportedAgain) {
  RequestLife life = begun_life();
  (void)life.on_status(503);
  (void)life.on_rerouted(std::nullopt);
  const LifeActions end = life.on_lost(false, "reset");
  EXPECT_EQ(end.report, LifeReport::kNothing);
  EXPECT_FALSE(end.doubt);
  EXPECT_EQ(end.answer, LifeAnswer::kError);
  EXPECT_EQ(end.over, Outcome::kUpstreamFailed);
}

TEST(RequestLife, LeavesAStalledWorkerIfThereIsAnother) {
  RequestLife life = begun_life();
  EXPECT_EQ(life.on_worker_stalled(WorkerId(1)).report, LifeReport::kNothing) << "another one";
  EXPECT_EQ(life.on_worker_stalled(WorkerId(0)).report, LifeReport::kLeave);
  EXPECT_FALSE(life.on_rerouted(std::nullopt).over) << "it may go on";
  EXPECT_EQ(life.on_worker_stalled(WorkerId(0)).report, LifeReport::kLeave);
  EXPECT_EQ(life.on_rerouted(to(1)).attempt->worker, WorkerId(1));
  (void)life.on_status(200);
  EXPECT_EQ(life.on_worker_stalled(WorkerId(1), AttemptFailure::kSilent).failure, AttemptFailure::kSilent)
      << "a head alone is no answer";
  (void)life.on_rerouted(std::nullopt);
  EXPECT_EQ(life.on_garbage("not JSON").failure, AttemptFailure::kGarbage) << "it goes on where it was";
  (void)life.on_rerouted(to(2));
  (void)life.on_status(200);
  life.on_begun();
  EXPECT_EQ(life.on_worker_stalled(WorkerId(2)).report, LifeReport::kNothing) << "its answer is on the way";
}

// The dispatcher's answer takes a moment, in which the worker may be given up for good. The gateway says that once.
TEST(RequestLife, DoesNotStayAtAWorkerThatWasLostWhileAnotherWasAskedFor) {
  for (const bool removed : {false, true}) {
    RequestLife life = begun_life();
    ASSERT_EQ(life.on_worker_stalled(WorkerId(0), AttemptFailure::kSilent).report, LifeReport::kLeave);
    const LifeActions lost =
        removed ? life.on_worker_removed(WorkerId(0), true) : life.on_worker_lost(WorkerId(0), true);
    EXPECT_EQ(lost.report, LifeReport::kNothing) << "the answer is on the way";
    const LifeActions actions = life.on_rerouted(std::nullopt);
    EXPECT_EQ(actions.report, LifeReport::kAttemptFailed);
    EXPECT_EQ(actions.failure, removed ? AttemptFailure::kRemoved : AttemptFailure::kTransport);
    EXPECT_TRUE(actions.abandon);
    EXPECT_EQ(life.on_rerouted(std::nullopt).over, Outcome::kUpstreamFailed) << "there is no other one";
  }
}

TEST(RequestLife, ThatAWorkerWasLostDoesNotMatterAtTheNextOne) {
  RequestLife life = begun_life();
  (void)life.on_worker_stalled(WorkerId(0), AttemptFailure::kSilent);
  (void)life.on_worker_lost(WorkerId(0), true);
  EXPECT_EQ(life.on_rerouted(to(1)).attempt->worker, WorkerId(1));
  ASSERT_EQ(life.on_worker_stalled(WorkerId(1)).report, LifeReport::kLeave);
  (void)life.on_worker_lost(WorkerId(0), true);
  EXPECT_EQ(life.on_rerouted(std::nullopt).report, LifeReport::kNothing) << "that one may go on";
}

// The worker was found silent before the first part of the answer came, and the word of it arrived after that.
TEST(RequestLife, AnAnswerThatHasBegunIsNoSilence) {
  RequestLife life = begun_life();
  (void)life.on_status(200);
  life.on_begun();
  life.set_resumable(3);
  EXPECT_EQ(life.on_worker_stalled(WorkerId(0), AttemptFailure::kSilent).report, LifeReport::kNothing);
  EXPECT_EQ(life.on_worker_stalled(WorkerId(0), AttemptFailure::kStalled).report, LifeReport::kLeave);
}

TEST(RequestLife, StatusesBelow500OfOtherEndpointsAreTheirOwnBusiness) {
  for (const int status : {302, 401, 403, 404}) {
    RequestLife life(kDeadline, true, RequestScope::kOther);
    (void)life.on_routed(to(0));
    EXPECT_EQ(life.on_status(status).answer, LifeAnswer::kPassOn) << status;
  }
  RequestLife life(kDeadline, true, RequestScope::kGeneration);
  (void)life.on_routed(to(0));
  EXPECT_EQ(life.on_status(404).answer, LifeAnswer::kPassOn) << "the gateway does not know that model either";
}

TEST(RequestLife, GarbageIsTriedElsewhereAndPassedOnIfThereIsNoOther) {
  RequestLife life = begun_life();
  (void)life.on_status(200);
  EXPECT_EQ(life.on_garbage("a page of HTML").failure, AttemptFailure::kGarbage);
  EXPECT_EQ(life.on_rerouted(to(1)).attempt->worker, WorkerId(1));
  (void)life.on_status(200);
  EXPECT_EQ(life.on_garbage("a page of HTML").doubt, WorkerId(1));
  EXPECT_EQ(life.on_rerouted(std::nullopt).answer, LifeAnswer::kPassOn);
  EXPECT_EQ(life.on_garbage("again").report, LifeReport::kNothing);
  EXPECT_EQ(life.on_ended().over, Outcome::kWorkerError) << "whatever its status says";
}

void expect_too_large(const LifeActions& end, LifeAnswer answer) {
  EXPECT_EQ(end.report, LifeReport::kNothing);
  EXPECT_FALSE(end.doubt);
  EXPECT_TRUE(end.abandon);
  EXPECT_EQ(end.answer, answer);
  EXPECT_EQ(end.error.code, ErrorCode::kCorrupt);
  EXPECT_EQ(end.error.message, "an event is larger than 5 bytes");
  EXPECT_EQ(end.over, Outcome::kWorkerError);
}

TEST(RequestLife, WhatIsTooLargeInABegunAnswerEndsIt) {
  RequestLife life = begun_life();
  (void)life.on_status(200);
  life.on_begun();
  life.set_resumable(7);
  expect_too_large(life.on_too_large("an event is larger than 5 bytes"), LifeAnswer::kBreakOff);
  EXPECT_FALSE(life.on_too_large("again").over);
}

// It may be what was asked for, or a worker that sends without an end.
TEST(RequestLife, WhatIsTooLargeIsAskedOfOneOtherWorker) {
  RequestLife life = begun_life();
  (void)life.on_status(200);
  const LifeActions asking = life.on_too_large("an event is larger than 6 bytes");
  EXPECT_EQ(asking.report, LifeReport::kAttemptFailed);
  EXPECT_EQ(asking.failure, AttemptFailure::kTooLarge);
  EXPECT_TRUE(is_disputed(asking.failure));
  EXPECT_FALSE(asking.doubt);
  EXPECT_TRUE(asking.abandon) << "it may have no end";
  EXPECT_FALSE(asking.over);
  EXPECT_TRUE(life.on_rerouted(to(1)).attempt);
  (void)life.on_status(200);
  expect_too_large(life.on_too_large("an event is larger than 5 bytes"), LifeAnswer::kError);
}

TEST(RequestLife, WhatIsTooLargeEndsTheRequestIfThereIsNoOtherWorkerOrItMayNotBeRepeated) {
  RequestLife alone = begun_life();
  (void)alone.on_status(200);
  (void)alone.on_too_large("an event is larger than 5 bytes");
  expect_too_large(alone.on_rerouted(std::nullopt), LifeAnswer::kError);
  RequestLife once(kDeadline, false);
  (void)once.on_routed(to(0));
  (void)once.on_status(200);
  expect_too_large(once.on_too_large("an event is larger than 5 bytes"), LifeAnswer::kError);
}

TEST(RequestLife, ABegunAnswerThatStandsStillIsBrokenOff) {
  RequestLife life = begun_life();
  EXPECT_FALSE(life.on_idle().over) << "it has not begun";
  (void)life.on_status(200);
  life.on_begun();
  const LifeActions end = life.on_idle();
  EXPECT_EQ(end.answer, LifeAnswer::kBreakOff);
  EXPECT_EQ(end.report, LifeReport::kStreamBroken);
  EXPECT_EQ(end.doubt, WorkerId(0));
  EXPECT_EQ(end.over, Outcome::kBrokenStream);
}

TEST(RequestLife, ALostWorkerIsAFailedConnection) {
  RequestLife life = begun_life();
  EXPECT_EQ(life.on_worker_lost(WorkerId(1), true).report, LifeReport::kNothing);
  const LifeActions lost = life.on_worker_lost(WorkerId(0), true);
  EXPECT_EQ(lost.failure, AttemptFailure::kTransport);
  EXPECT_TRUE(lost.abandon);
}

TEST(RequestLife, ARemovalIsNotTheWorkersFailure) {
  RequestLife life = begun_life();
  EXPECT_EQ(life.on_worker_removed(WorkerId(1), true).report, LifeReport::kNothing);
  const LifeActions removed = life.on_worker_removed(WorkerId(0), true);
  EXPECT_EQ(removed.report, LifeReport::kAttemptFailed);
  EXPECT_EQ(removed.failure, AttemptFailure::kRemoved);
  EXPECT_EQ(to_string(removed.failure), "removed");
  EXPECT_FALSE(removed.doubt);
  EXPECT_TRUE(removed.abandon);
  RequestLife alone = life;
  EXPECT_EQ(life.on_rerouted(to(1)).attempt->worker, WorkerId(1));
  EXPECT_EQ(alone.on_rerouted(std::nullopt).error.message,
            "the worker was removed from the fleet, and no other could answer the request");
  (void)life.on_status(200);
  life.on_begun();
  const LifeActions end = life.on_worker_removed(WorkerId(1), true);
  EXPECT_EQ(end.answer, LifeAnswer::kBreakOff);
  EXPECT_EQ(end.error.message, "the worker was removed from the fleet");
  EXPECT_EQ(end.failure, AttemptFailure::kRemoved);
  EXPECT_FALSE(end.doubt);
}

TEST(RequestLife, WhatALostWorkerNeverGotIsRepeatedEvenIfItMayHaveEffects) {
  RequestLife sent(kDeadline, false);
  (void)sent.on_routed(to(0));
  EXPECT_EQ(sent.on_worker_lost(WorkerId(0), true).over, Outcome::kUpstreamFailed) << "it may have been carried out";
  RequestLife unsent(kDeadline, false);
  (void)unsent.on_routed(to(0));
  const LifeActions lost = unsent.on_worker_lost(WorkerId(0), false);
  EXPECT_EQ(lost.report, LifeReport::kAttemptFailed);
  EXPECT_EQ(unsent.on_rerouted(to(1)).attempt->worker, WorkerId(1));
}

TEST(RequestLife, WantOfASocketIsNotTheWorkersFault) {
  RequestLife life = begun_life();
  Duration pause = RequestLife::kExhaustedPause;
  for (std::uint32_t i = 0; i < RequestLife::kExhaustedTries; ++i, pause *= 2) {
    const LifeActions actions = life.on_exhausted();
    EXPECT_EQ(actions.again_in, pause);
    EXPECT_EQ(actions.report, LifeReport::kNothing);
    EXPECT_FALSE(actions.doubt);
    EXPECT_FALSE(actions.over);
  }
  const LifeActions end = life.on_exhausted();
  EXPECT_EQ(end.report, LifeReport::kNothing);
  EXPECT_EQ(end.again_in, Duration(0));
  EXPECT_EQ(end.answer, LifeAnswer::kError);
  EXPECT_EQ(end.error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(end.over, Outcome::kExhausted);
}

TEST(RequestLife, AClientThatLeavesAbortsTheCall) {
  RequestLife life = begun_life();
  const LifeActions gone = life.on_client_gone();
  EXPECT_TRUE(gone.abandon);
  EXPECT_EQ(gone.answer, LifeAnswer::kNothing);
  EXPECT_EQ(gone.over, Outcome::kClientGone);
}

TEST(RequestLife, AShutdownEndsRequestsWithoutAnAnswerAndBreaksBegunAnswers) {
  const Error error{ErrorCode::kUnavailable, "the gateway is shutting down"};
  RequestLife waiting = begun_life();
  EXPECT_EQ(waiting.on_shutdown(error).over, Outcome::kUpstreamFailed);
  RequestLife streaming = begun_life();
  (void)streaming.on_status(200);
  streaming.on_begun();
  const LifeActions end = streaming.on_shutdown(error);
  EXPECT_EQ(end.answer, LifeAnswer::kBreakOff);
  EXPECT_EQ(end.error.message, error.message);
  EXPECT_EQ(end.over, Outcome::kBrokenStream);
}

/// Random events in random order: checks the invariants of the class.
class Hazard {
 public:
  explicit Hazard(std::uint64_t seed) : random_(seed), life_(kDeadline, random_.uniform() < 0.7) {
    take(life_.on_routed(to(0)));
  }

  void run() {
    for (int i = 0; i < 40; ++i) step();
    take(life_.on_client_gone());
    EXPECT_EQ(ends_, 1) << "each request ends once";
  }

 private:
  bool chance(double p) { return random_.uniform() < p; }
  WorkerId any_worker() { return WorkerId(static_cast<std::uint32_t>(random_.uniform_int(0, 3))); }

  void step() {
    constexpr int kStatuses[] = {200, 200, 200, 302, 400, 401, 404, 429, 500, 503};
    if (asking_ && chance(0.7)) {
      asking_ = false;
      return take(life_.on_rerouted(chance(0.6) ? std::optional(to(any_worker().value())) : std::nullopt));
    }
    if (chance(0.3)) {
      resumable_ = chance(0.6);
      life_.set_resumable(resumable_ ? std::optional(7U) : std::nullopt);
    }
    switch (random_.uniform_int(0, 13)) {
      case 13:
        if (chance(0.1)) take(life_.on_too_large("an event"));
        return;
      case 12:
        if (begun_ && !attempt_begun_) take(life_.on_not_resumed());
        return;
      case 11:
        return take(life_.on_exhausted());
      case 0:
      case 1:
        return take(life_.on_status(kStatuses[random_.uniform_int(0, 9)]));
      case 2:
        if (passing_on_ && !asking_ && !life_.is_over()) {
          life_.on_begun();
          begun_ = attempt_begun_ = true;
        }
        return;
      case 3:
        return take(life_.on_error_frame("it died", chance(0.5)));
      case 4:
        return take(life_.on_lost(chance(0.2), "reset", chance(0.5)));
      case 5:
        if (passing_on_ && !asking_) take(life_.on_ended(chance(0.1)));
        return;
      case 6:
        return take(
            life_.on_worker_stalled(any_worker(), chance(0.5) ? AttemptFailure::kStalled : AttemptFailure::kSilent));
      case 7:
        if (chance(0.3)) return take(life_.on_worker_removed(any_worker(), chance(0.5)));
        return take(life_.on_worker_lost(any_worker(), chance(0.5)));
      case 8:
        if (chance(0.1)) take(life_.on_shutdown({ErrorCode::kUnavailable, "the end"}));
        return;
      case 9:
        return take(life_.on_garbage("no JSON"));
      case 10:
        if (chance(0.1)) take(life_.on_idle());
        return;
      default:
        return;
    }
  }

  void take(const LifeActions& actions) {
    const bool anything = actions.report != LifeReport::kNothing || actions.abandon || actions.doubt ||
                          actions.attempt || actions.answer != LifeAnswer::kNothing || actions.over;
    EXPECT_FALSE(ends_ > 0 && anything) << "it is over";
    if (actions.report == LifeReport::kAttemptFailed) {
      EXPECT_FALSE(reported_) << "an attempt fails once";
      EXPECT_TRUE(!attempt_begun_ || resumable_) << "what has begun is not begun again elsewhere";
      EXPECT_TRUE(!begun_ || actions.abandon) << "nothing of it can be passed on any more";
      EXPECT_EQ(actions.resumed_tokens, begun_ && resumable_ ? 7U : 0U);
      reported_ = true;
      passing_on_ = false;
    }
    if (actions.report == LifeReport::kAttemptFailed || actions.report == LifeReport::kLeave) asking_ = true;
    if (actions.attempt) {
      EXPECT_FALSE(actions.over);
      attempt_begun_ = reported_ = passing_on_ = false;
    }
    if (actions.answer == LifeAnswer::kPassOn) passing_on_ = true;
    EXPECT_FALSE(actions.answer == LifeAnswer::kError && begun_);
    EXPECT_FALSE(actions.answer == LifeAnswer::kBreakOff && !begun_);
    if (actions.answer == LifeAnswer::kEnd || actions.answer == LifeAnswer::kError ||
        actions.answer == LifeAnswer::kBreakOff) {
      EXPECT_TRUE(actions.over);
    }
    if (actions.over) ++ends_;
    EXPECT_EQ(life_.is_over(), ends_ > 0);
  }

  RandomStream random_;
  RequestLife life_;
  bool asking_ = false;
  bool reported_ = false;
  bool passing_on_ = false;
  bool begun_ = false;
  bool attempt_begun_ = false;
  bool resumable_ = false;
  int ends_ = 0;
};

TEST(RequestLife, KeepsItsInvariantsWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Hazard(seed).run();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace kvist::dispatch::request_life_test
