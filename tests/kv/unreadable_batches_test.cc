// What an EventSequencer does after batches that its owner could not read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kvist/kv/event_sequencer.h"

namespace kvist::kv::unreadable_batches_test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A sequencer and a publisher that numbers its batches from 0; the content of one is "b" and its number.
class UnreadableBatchesTest : public testing::Test {
 protected:
  static std::vector<std::string> texts(const std::vector<SequencerAction>& actions) {
    std::vector<std::string> out;
    for (const SequencerAction& action : actions) {
      if (const auto* apply = std::get_if<ApplyPayload>(&action)) out.push_back(apply->payload);
      if (std::holds_alternative<ResetWorker>(action)) out.emplace_back("reset");
      if (const auto* replay = std::get_if<RequestReplay>(&action))
        out.push_back("replay " + std::to_string(replay->from));
    }
    return out;
  }
  std::vector<std::string> live(std::uint64_t n, std::string content = {}) {
    if (content.empty()) content = "b" + std::to_string(n);
    return texts(sequencer_.on_live(n, std::move(content), now_));
  }
  std::vector<std::string> replayed(std::uint64_t n, std::string content = {}) {
    if (content.empty()) content = "b" + std::to_string(n);
    return texts(sequencer_.on_replayed(n, std::move(content), now_));
  }
  /// The batch that was applied last could not be read.
  void unreadable() { sequencer_.on_unreadable(sequencer_.counters().resets, now_); }
  std::vector<std::string> poll_after(Duration wait) {
    now_ += wait;
    return texts(sequencer_.poll(now_));
  }
  /// The time until the next attempt, which brings what was there before.
  Duration attempt(std::uint64_t newest) {
    const auto wakeup = sequencer_.next_wakeup();
    if (!wakeup) return Duration::max();
    const Duration waited = *wakeup - now_;
    EXPECT_THAT(poll_after(waited), ElementsAre("replay 0"));
    for (std::uint64_t n = 0; n <= newest; ++n) {
      (void)replayed(n);
      if (n == newest) unreadable();
    }
    EXPECT_THAT(texts(sequencer_.on_replay_end(now_)), IsEmpty());
    return waited;
  }

  EventSequencer sequencer_{EventSequencer::Options{}};
  TimePoint now_{seconds(1'000)};
};

TEST_F(UnreadableBatchesTest, AllIsAskedForAgainAndReplacesWhatWasApplied) {
  for (std::uint64_t n = 0; n < 5; ++n) (void)live(n);
  (void)live(5, "spoilt on its way");
  unreadable();
  EXPECT_THAT(live(6), ElementsAre("b6"));
  EXPECT_THAT(poll_after(seconds(9)), IsEmpty());
  EXPECT_THAT(poll_after(seconds(1)), ElementsAre("replay 0"));
  EXPECT_THAT(live(7), IsEmpty());
  EXPECT_THAT(replayed(0), ElementsAre("reset", "b0"));
  for (std::uint64_t n = 1; n < 8; ++n) EXPECT_THAT(replayed(n), ElementsAre("b" + std::to_string(n)));
  EXPECT_THAT(texts(sequencer_.on_replay_end(now_)), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt);
  EXPECT_EQ(sequencer_.counters().restarts, 0U);
}

TEST_F(UnreadableBatchesTest, ASnapshotUnderAKnownNumberReplacesWhatWasApplied) {
  for (std::uint64_t n = 0; n < 9; ++n) (void)live(n);
  unreadable();
  EXPECT_THAT(poll_after(seconds(10)), ElementsAre("replay 0"));
  EXPECT_THAT(replayed(4, "a snapshot of all up to here"),
              ElementsAre("reset", "reset", "a snapshot of all up to here"));
  sequencer_.on_cleared(sequencer_.counters().resets);  // with that, a snapshot begins
  for (std::uint64_t n = 5; n < 9; ++n) EXPECT_THAT(replayed(n), ElementsAre("b" + std::to_string(n)));
  EXPECT_THAT(texts(sequencer_.on_replay_end(now_)), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt);
}

TEST_F(UnreadableBatchesTest, WhatReachesFurtherBackThanThePublishersBufferIsKept) {
  for (std::uint64_t n = 0; n < 9; ++n) (void)live(n);
  unreadable();
  EXPECT_THAT(poll_after(seconds(10)), ElementsAre("replay 0"));
  for (std::uint64_t n = 4; n < 9; ++n) EXPECT_THAT(replayed(n), IsEmpty());
  EXPECT_THAT(texts(sequencer_.on_replay_end(now_)), IsEmpty());
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt) << "and it is not tried for ever";
  EXPECT_THAT(live(9), ElementsAre("b9"));
}

TEST_F(UnreadableBatchesTest, APublisherThatIsNeverUnderstoodIsAskedLessAndLess) {
  for (std::uint64_t n = 0; n < 3; ++n) (void)live(n);
  unreadable();
  EXPECT_EQ(attempt(2), seconds(10));
  EXPECT_EQ(attempt(2), seconds(20));
  EXPECT_EQ(attempt(2), seconds(40));
  EXPECT_EQ(attempt(2), seconds(80));
  EXPECT_EQ(attempt(2), seconds(160));
  EXPECT_EQ(attempt(2), minutes(5));
  EXPECT_EQ(attempt(2), minutes(5));
}

TEST_F(UnreadableBatchesTest, AClearMakesItUnimportant) {
  for (std::uint64_t n = 0; n < 3; ++n) (void)live(n);
  unreadable();
  sequencer_.on_cleared(sequencer_.counters().resets);
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt);
}

TEST_F(UnreadableBatchesTest, OfAViewThatIsForgottenNothingIsAskedFor) {
  for (std::uint64_t n = 0; n < 3; ++n) (void)live(n);
  sequencer_.on_unreadable(sequencer_.counters().resets + 1, now_);
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt);
}

TEST_F(UnreadableBatchesTest, WithoutReplayNothingIsAskedFor) {
  EventSequencer::Options options;
  options.replay_available = false;
  sequencer_ = EventSequencer(options);
  for (std::uint64_t n = 0; n < 3; ++n) (void)live(n);
  unreadable();
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt);
}

}  // namespace
}  // namespace kvist::kv::unreadable_batches_test
