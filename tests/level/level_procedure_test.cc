#include "kvist/level/level_procedure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace kvist::level::level_procedure_test {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

TimePoint at(int second) {
  return TimePoint{} + seconds(second);
}

spec::MethodSpec method() {
  spec::MethodSpec method;
  method.warmup = seconds(10);
  method.snapshots = 2;
  method.snapshot_interval = seconds(20);
  method.drain_timeout = seconds(100);
  return method;
}

/// Answers on_done() at once, and to a wait at its end, until `last` is asked for; the steps so far, that one included.
std::vector<LevelStep> drive(LevelProcedure& procedure, LevelAction& action, TimePoint& now, LevelStep last) {
  std::vector<LevelStep> steps{action.step};
  while (action.step != last) {
    if (action.step == LevelStep::kAwaitSnapshot) now = action.until;
    action = procedure.on_done(now);
    steps.push_back(action.step);
  }
  return steps;
}

TEST(LevelProcedure, OneLevelFromIdlenessToIdleness) {
  LevelProcedure procedure(method(), 1);
  TimePoint now = at(5);
  LevelAction action = procedure.begin(now);
  EXPECT_THAT(drive(procedure, action, now, LevelStep::kEnd),
              ElementsAre(LevelStep::kProveIdle, LevelStep::kReadCounters, LevelStep::kStartLoad,  //
                          LevelStep::kAwaitSnapshot, LevelStep::kTakeSnapshot, LevelStep::kAwaitSnapshot,
                          LevelStep::kTakeSnapshot, LevelStep::kReadClient,  //
                          LevelStep::kDrain, LevelStep::kProveIdle, LevelStep::kReadCounters, LevelStep::kEnd));
  EXPECT_EQ(now, at(5 + 10 + 2 * 20)) << "and nothing else took time";
  EXPECT_FALSE(action.failure.has_value());
  EXPECT_EQ(procedure.complete(), 1U);
}

TEST(LevelProcedure, ALoadThatBeginsAMomentLaterHasItsTimesFromThen) {
  LevelProcedure procedure(method(), 1);
  TimePoint now = at(0);
  LevelAction action = procedure.begin(now);
  (void)drive(procedure, action, now, LevelStep::kStartLoad);
  procedure.begins_at(at(3));
  EXPECT_EQ(procedure.begun().back().started, at(3));
  EXPECT_EQ(procedure.begun().back().measure_from, at(13));
  action = procedure.on_done(now);
  EXPECT_EQ(action.until, at(3 + 10 + 20));
}

TEST(LevelProcedure, SnapshotsCountFromTheStartOfTheLoad) {
  LevelProcedure procedure(method(), 1);
  TimePoint now = at(0);
  LevelAction action = procedure.begin(now);
  (void)drive(procedure, action, now, LevelStep::kReadCounters);
  now = at(7);  // the proof of idleness took its time
  (void)drive(procedure, action, now, LevelStep::kStartLoad);
  EXPECT_EQ(procedure.begun().back().started, at(7));
  EXPECT_EQ(procedure.begun().back().measure_from, at(17));
  EXPECT_THAT(procedure.snapshot_times(), ElementsAre(at(37), at(57)));

  action = procedure.on_done(at(9));
  EXPECT_EQ(action.snapshot, 1U);
  EXPECT_EQ(action.until, at(37)) << "however long the load took to start";
  action = procedure.on_done(at(40));
  EXPECT_EQ(action.snapshot, 1U);
  action = procedure.on_done(at(44));
  EXPECT_EQ(action.snapshot, 2U);
  EXPECT_EQ(action.until, at(57)) << "however late the first one was";
}

TEST(LevelProcedure, ALoadThatGoesOnDrainsOnceAtItsEnd) {
  LevelProcedure procedure(method(), 2);
  TimePoint now = at(0);
  LevelAction action = procedure.begin(now);
  (void)drive(procedure, action, now, LevelStep::kReadClient);
  EXPECT_THAT(
      drive(procedure, action, now, LevelStep::kAwaitSnapshot),
      ElementsAre(LevelStep::kReadClient, LevelStep::kReadCounters, LevelStep::kRaiseLoad, LevelStep::kAwaitSnapshot));
  EXPECT_EQ(action.level, 1U);
  EXPECT_EQ(action.snapshot, 1U) << "numbered anew";
  EXPECT_EQ(procedure.begun().back().started, at(50)) << "at the last snapshot of the level before";
  EXPECT_THAT(procedure.snapshot_times(), ElementsAre(at(80), at(100)));
  (void)drive(procedure, action, now, LevelStep::kDrain);
  EXPECT_EQ(action.until, at(200));
  (void)drive(procedure, action, now, LevelStep::kEnd);
  EXPECT_EQ(procedure.complete(), 2U);
}

TEST(LevelProcedure, TurnsThatDoNotEndInTimeAreBrokenOffWithARemark) {
  LevelProcedure procedure(method(), 1);
  TimePoint now = at(0);
  LevelAction action = procedure.begin(now);
  (void)drive(procedure, action, now, LevelStep::kDrain);
  EXPECT_EQ(action.until, at(150));
  action = procedure.on_overdue(3, at(150));
  EXPECT_EQ(action.step, LevelStep::kBreakOff);
  EXPECT_EQ(action.remark, "3 turns had not ended 100 s after the last snapshot and were broken off");
  EXPECT_EQ(action.until, at(160));
  EXPECT_THAT(drive(procedure, action, now, LevelStep::kEnd),
              ElementsAre(LevelStep::kBreakOff, LevelStep::kProveIdle, LevelStep::kReadCounters, LevelStep::kEnd));
  EXPECT_EQ(procedure.complete(), 1U) << "it is measured all the same";
}

TEST(LevelProcedure, ALoadThatCannotEvenBeBrokenOffIsAFailure) {
  LevelProcedure procedure(method(), 2);
  TimePoint now = at(0);
  LevelAction action = procedure.begin(now);
  (void)drive(procedure, action, now, LevelStep::kDrain);
  (void)procedure.on_overdue(3, at(200));
  action = procedure.on_overdue(2, at(210));
  EXPECT_EQ(action.step, LevelStep::kEnd);
  ASSERT_TRUE(action.failure.has_value());
  EXPECT_EQ(action.failure->code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(procedure.complete(), 1U) << "the level before it";
}

TEST(LevelProcedure, WhateverFailsNoLoadIsLeft) {
  const std::vector<LevelStep> steps{LevelStep::kStartLoad,  LevelStep::kAwaitSnapshot, LevelStep::kTakeSnapshot,
                                     LevelStep::kReadClient, LevelStep::kReadCounters,  LevelStep::kRaiseLoad,
                                     LevelStep::kDrain,      LevelStep::kProveIdle};
  for (const LevelStep step : steps) {
    LevelProcedure procedure(method(), 2);
    TimePoint now = at(0);
    LevelAction action = procedure.begin(now);
    (void)drive(procedure, action, now, LevelStep::kStartLoad);
    (void)drive(procedure, action, now, step);
    const std::size_t begun = procedure.begun().size();
    action = procedure.on_failed(now);
    EXPECT_EQ(action.step, LevelStep::kBreakOff);
    EXPECT_TRUE(action.remark.empty());
    EXPECT_EQ(procedure.on_done(now).step, LevelStep::kEnd) << "neither a proof nor a reading is worth anything now";
    EXPECT_EQ(procedure.complete(), begun - 1);
  }
}

TEST(LevelProcedure, WhatFailsBeforeTheLoadNeedsNoBreakingOff) {
  LevelProcedure procedure(method(), 1);
  (void)procedure.begin(at(0));
  EXPECT_EQ(procedure.on_failed(at(1)).step, LevelStep::kEnd);
  EXPECT_EQ(procedure.complete(), 0U);
}

TEST(LevelProcedure, ATurnBelongsToTheLevelInWhichItWasSent) {
  LevelProcedure procedure(method(), 2);
  TimePoint now = at(1);
  LevelAction action = procedure.begin(now);
  (void)drive(procedure, action, now, LevelStep::kRaiseLoad);  // at 51 s
  const auto level_of = [&](int intended, int sent) {
    workload::TurnSample turn;
    turn.intended = at(intended);
    turn.sent = at(sent);
    return procedure.level_of(turn);
  };
  EXPECT_EQ(level_of(1, 1), 0U);
  EXPECT_EQ(level_of(50, 50), 0U);
  EXPECT_EQ(level_of(50, 51), 1U) << "sent late, and that is what counts";
  EXPECT_EQ(level_of(60, 0), 1U) << "never sent";
  EXPECT_EQ(level_of(20, 0), 0U);
}

TEST(LevelProcedure, MeasuringTimeIsWarmUpAndSnapshots) {
  EXPECT_EQ(measuring_time(method()), seconds(10 + 2 * 20));
}

}  // namespace
}  // namespace kvist::level::level_procedure_test
