// The life of a request whose begun answer goes on at another worker.
#include <gtest/gtest.h>

#include "kvist/dispatch/request_life.h"

namespace kvist::dispatch::resumed_life_test {
namespace {

routing::Decision to(std::uint32_t worker) {
  routing::Decision decision;
  decision.worker = WorkerId(worker);
  return decision;
}

/// A life that has sent five tokens of worker 0's answer to the client, and may go on elsewhere.
RequestLife resumable_life() {
  RequestLife life(TimePoint(std::chrono::seconds(600)));
  (void)life.on_routed(to(0));
  (void)life.on_status(200);
  life.on_begun();
  life.set_resumable(5);
  return life;
}

TEST(ResumedLife, ABegunAnswerGoesOnElsewhere) {
  const auto losses = {+[](RequestLife& life) { return life.on_lost(false, "reset"); },
                       +[](RequestLife& life) { return life.on_idle(); },
                       +[](RequestLife& life) { return life.on_worker_lost(WorkerId(0), true); },
                       +[](RequestLife& life) { return life.on_error_frame("shutting down", true); }};
  for (const auto& lose : losses) {
    RequestLife life = resumable_life();
    const LifeActions lost = lose(life);
    EXPECT_EQ(lost.report, LifeReport::kAttemptFailed);
    EXPECT_EQ(lost.failure, AttemptFailure::kTransport);
    EXPECT_EQ(lost.resumed_tokens, 5U);
    EXPECT_TRUE(lost.abandon);
    EXPECT_EQ(lost.doubt, WorkerId(0));
    EXPECT_EQ(lost.answer, LifeAnswer::kNothing);
    RequestLife moves = life;
    EXPECT_EQ(moves.on_rerouted(to(1)).attempt->worker, WorkerId(1));
    EXPECT_TRUE(moves.begun());
    EXPECT_FALSE(moves.attempt_begun());
    EXPECT_EQ(moves.on_status(200).answer, LifeAnswer::kPassOn);
    moves.on_begun();
    EXPECT_EQ(moves.on_ended().over, Outcome::kCompleted);
    const LifeActions alone = life.on_rerouted(std::nullopt);
    EXPECT_EQ(alone.answer, LifeAnswer::kBreakOff);
    EXPECT_EQ(alone.over, Outcome::kBrokenStream);
    EXPECT_FALSE(alone.error.message.empty());
  }
}

TEST(ResumedLife, ARefusalIsNoPartOfABegunAnswer) {
  for (const int status : {301, 400, 404, 429, 500, 503}) {
    RequestLife life = resumable_life();
    (void)life.on_lost(false, "reset");
    (void)life.on_rerouted(to(1));
    LifeActions actions = life.on_status(status);
    if (status == 400) {
      EXPECT_FALSE(actions.asks()) << "the next worker would say the same";
    } else {
      EXPECT_TRUE(actions.asks()) << status;
      EXPECT_TRUE(actions.abandon);
      actions = life.on_rerouted(std::nullopt);
    }
    EXPECT_EQ(actions.answer, LifeAnswer::kBreakOff) << status;
    EXPECT_EQ(actions.error.message, "the worker broke off its answer");
  }
}

TEST(ResumedLife, AWorkerThatDoesNotGoOnIsNotDoubted) {
  RequestLife life = resumable_life();
  (void)life.on_lost(false, "reset");
  (void)life.on_rerouted(to(1));
  const LifeActions actions = life.on_not_resumed();
  EXPECT_EQ(actions.failure, AttemptFailure::kNotResumable);
  EXPECT_FALSE(actions.doubt);
  EXPECT_EQ(life.on_rerouted(to(2)).attempt->worker, WorkerId(2));
  EXPECT_EQ(life.on_worker_stalled(WorkerId(2), AttemptFailure::kSilent).report, LifeReport::kLeave);
  EXPECT_EQ(life.on_rerouted(std::nullopt).answer, LifeAnswer::kNothing) << "it may still answer";
  EXPECT_EQ(life.on_status(200).answer, LifeAnswer::kPassOn);
}

TEST(ResumedLife, ABegunAnswerLeavesAStalledWorkerOnlyForAnother) {
  RequestLife life = resumable_life();
  const LifeActions leave = life.on_worker_stalled(WorkerId(0));
  EXPECT_EQ(leave.report, LifeReport::kLeave);
  EXPECT_EQ(leave.resumed_tokens, 5U);
  EXPECT_FALSE(leave.abandon);
  RequestLife stays = life;
  EXPECT_EQ(stays.on_rerouted(std::nullopt).answer, LifeAnswer::kNothing);
  EXPECT_EQ(stays.on_ended().over, Outcome::kCompleted);
  EXPECT_EQ(life.on_rerouted(to(1)).attempt->worker, WorkerId(1));
}

}  // namespace
}  // namespace kvist::dispatch::resumed_life_test
