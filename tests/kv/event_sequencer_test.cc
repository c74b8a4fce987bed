#include "kvist/kv/event_sequencer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kvist::kv::event_sequencer_test {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr TimePoint kStart{seconds(1'000)};

/// Actions as short texts: "apply 5", "reset", "replay 3".
std::vector<std::string> texts(const std::vector<SequencerAction>& actions) {
  std::vector<std::string> out;
  for (const SequencerAction& action : actions) {
    if (const auto* apply = std::get_if<ApplyPayload>(&action)) out.push_back("apply " + apply->payload);
    if (std::holds_alternative<ResetWorker>(action)) out.emplace_back("reset");
    if (const auto* replay = std::get_if<RequestReplay>(&action))
      out.push_back("replay " + std::to_string(replay->from));
  }
  return out;
}

/// A sequencer and frames whose payload is run and number: "a5".
class EventSequencerTest : public testing::Test {
 protected:
  std::vector<std::string> connected() { return texts(sequencer_.on_connected(now_)); }
  std::vector<std::string> live(std::uint64_t n) {
    return texts(sequencer_.on_live(n, run_ + std::to_string(n), now_));
  }
  std::vector<std::string> replayed(std::uint64_t n) {
    return texts(sequencer_.on_replayed(n, run_ + std::to_string(n), now_));
  }
  std::vector<std::string> replay_end() { return texts(sequencer_.on_replay_end(now_)); }
  std::vector<std::string> published(std::uint64_t count) { return texts(sequencer_.on_published(count, now_)); }
  std::vector<std::string> poll_after(Duration wait) {
    now_ += wait;
    return texts(sequencer_.poll(now_));
  }
  /// Delivers frames 0 to count - 1 as live ones.
  void feed(std::uint64_t count) {
    for (std::uint64_t n = 0; n < count; ++n) (void)live(n);
  }
  void use(EventSequencer::Options options) { sequencer_ = EventSequencer(options); }

  EventSequencer sequencer_{EventSequencer::Options{}};
  TimePoint now_ = kStart;
  std::string run_ = "a";
};

TEST_F(EventSequencerTest, AppliesLiveFramesInOrder) {
  EXPECT_THAT(live(0), ElementsAre("apply a0"));
  EXPECT_THAT(live(1), ElementsAre("apply a1"));
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().applied, 2U);
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt);
}

TEST_F(EventSequencerTest, ALossAtTheEndShowsByWhatThePublisherSays) {
  feed(3);
  EXPECT_THAT(published(5), IsEmpty()) << "frames 3 and 4 may be on their way";
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_THAT(published(5), ElementsAre("replay 2"));
  EXPECT_FALSE(sequencer_.whole());
  EXPECT_THAT(replayed(2), IsEmpty());
  EXPECT_THAT(replayed(3), ElementsAre("apply a3"));
  EXPECT_THAT(replayed(4), ElementsAre("apply a4"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_THAT(published(5), IsEmpty());
  EXPECT_EQ(sequencer_.counters().gaps, 1U);
  EXPECT_EQ(sequencer_.counters().resets, 0U);
}

TEST_F(EventSequencerTest, WhileThePublishersEndCannotBeHadTheViewStaysAndIsNotWhole) {
  feed(3);
  (void)published(5);
  EXPECT_THAT(published(6), ElementsAre("replay 2"));
  EXPECT_THAT(poll_after(seconds(5)), IsEmpty());
  EXPECT_FALSE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().resets, 0U);
  // Frames of the replay that was given up may still come for as long again.
  EXPECT_THAT(published(6), IsEmpty());
  EXPECT_THAT(poll_after(seconds(5)), ElementsAre("replay 2"));
  for (const std::uint64_t n : {2, 3, 4, 5}) (void)replayed(n);
  (void)replay_end();
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().applied, 6U);
}

TEST_F(EventSequencerTest, ANewRunWhoseFramesWereLostShowsByItsLowerCount) {
  feed(3);
  (void)published(3);
  run_ = "b";
  EXPECT_THAT(published(2), ElementsAre("replay 2"));
  EXPECT_THAT(replay_end(), ElementsAre("reset", "replay 0")) << "it does not know frame 2";
  EXPECT_THAT(replayed(0), ElementsAre("apply b0"));
  EXPECT_THAT(replayed(1), ElementsAre("apply b1"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_THAT(published(2), IsEmpty());
  EXPECT_THAT(published(2), IsEmpty());
}

TEST_F(EventSequencerTest, ANewProcessIsAskedUntilItAnswers) {
  feed(3);
  EXPECT_THAT(texts(sequencer_.on_restarted(now_)), ElementsAre("replay 2"));
  EXPECT_THAT(poll_after(seconds(5)), IsEmpty());
  EXPECT_FALSE(sequencer_.whole());
  EXPECT_THAT(published(1), IsEmpty()) << "the rest of the replay that was given up may still come";
  EXPECT_THAT(poll_after(seconds(5)), ElementsAre("replay 2"));
  EXPECT_THAT(replay_end(), ElementsAre("reset", "replay 0"));
  run_ = "b";
  EXPECT_THAT(replayed(0), ElementsAre("apply b0"));
  (void)replay_end();
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, ANewProcessIsAskedForItsRun) {
  feed(3);
  run_ = "b";
  EXPECT_THAT(texts(sequencer_.on_restarted(now_)), ElementsAre("replay 2"));
  EXPECT_THAT(texts(sequencer_.on_restarted(now_)), IsEmpty()) << "it is being asked";
  EXPECT_THAT(replayed(2), ElementsAre("reset")) << "another frame 2";
  EXPECT_THAT(replay_end(), ElementsAre("replay 0"));
  for (const std::uint64_t n : {0, 1, 2, 3}) (void)replayed(n);
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().restarts, 1U);
  // The stream had shown the new run already: nothing changes.
  EXPECT_THAT(texts(sequencer_.on_restarted(now_)), ElementsAre("replay 3"));
  EXPECT_THAT(replayed(3), IsEmpty());
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().restarts, 1U);
}

TEST_F(EventSequencerTest, AFirstConnectionReplaysWhatIsBuffered) {
  EXPECT_THAT(connected(), ElementsAre("replay 0"));
  EXPECT_FALSE(sequencer_.whole());
  EXPECT_THAT(replayed(0), ElementsAre("apply a0"));
  EXPECT_THAT(live(2), IsEmpty());  // waits
  EXPECT_THAT(replayed(1), ElementsAre("apply a1"));
  EXPECT_THAT(replayed(2), ElementsAre("apply a2"));
  EXPECT_THAT(live(3), IsEmpty());
  EXPECT_THAT(replay_end(), ElementsAre("apply a3"));
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().resets, 0U);
}

TEST_F(EventSequencerTest, AClearEndsTheEffectOfALoss) {
  EXPECT_THAT(connected(), ElementsAre("replay 0"));
  EXPECT_THAT(replayed(40), ElementsAre("reset", "apply a40"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_FALSE(sequencer_.whole()) << "0 to 39 fell out of the buffer";
  const auto actions = sequencer_.on_live(41, "a41", now_);
  ASSERT_EQ(actions.size(), 1U);
  sequencer_.on_cleared(std::get<ApplyPayload>(actions[0]).view);
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt) << "nothing is left to be made up for";
  EXPECT_THAT(live(42), ElementsAre("apply a42"));
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, AClearBeforeALossDoesNotEndIt) {
  feed(3);
  const std::uint64_t view = std::get<ApplyPayload>(sequencer_.on_live(3, "a3", now_)[0]).view;
  EXPECT_THAT(live(9), ElementsAre("replay 3"));
  EXPECT_THAT(replayed(7), ElementsAre("reset", "apply a7"));
  EXPECT_THAT(replayed(8), ElementsAre("apply a8"));
  EXPECT_THAT(replay_end(), ElementsAre("apply a9"));
  sequencer_.on_cleared(view);
  EXPECT_FALSE(sequencer_.whole());
}

TEST_F(EventSequencerTest, AFreshPublisherHasNothingToReplay) {
  (void)connected();
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_THAT(live(0), ElementsAre("apply a0"));
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, PublishersMayCountFromOne) {
  (void)connected();
  EXPECT_THAT(replayed(1), ElementsAre("apply a1"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, AOneIsNoStartOfAPublisherThatCountsFromZero) {
  feed(5);
  run_ = "b";
  (void)connected();
  EXPECT_THAT(replay_end(), ElementsAre("reset", "replay 0"));
  EXPECT_THAT(replayed(1), ElementsAre("reset", "apply b1"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_FALSE(sequencer_.whole());
}

TEST_F(EventSequencerTest, AFirstLiveOneIsCheckedForAZeroBefore) {
  EXPECT_THAT(live(1), ElementsAre("replay 0"));
  EXPECT_THAT(replayed(0), ElementsAre("apply a0"));
  EXPECT_THAT(replay_end(), ElementsAre("apply a1"));
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, ATrimmedBufferAtTheFirstConnectionIsALoss) {
  (void)connected();
  EXPECT_THAT(replayed(500), ElementsAre("reset", "apply a500"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_FALSE(sequencer_.whole());
  EXPECT_THAT(live(501), ElementsAre("apply a501"));
  EXPECT_THAT(poll_after(seconds(10)), ElementsAre("replay 0"));
  EXPECT_THAT(replayed(501), IsEmpty());
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt) << "asking again would bring no more";
  EXPECT_EQ(sequencer_.counters().resets, 1U);
}

TEST_F(EventSequencerTest, AGapIsReplayedFromTheLastKnownFrame) {
  feed(3);
  EXPECT_THAT(live(5), ElementsAre("replay 2"));
  EXPECT_FALSE(sequencer_.whole());
  EXPECT_THAT(replayed(2), IsEmpty());
  EXPECT_THAT(replayed(3), ElementsAre("apply a3"));
  EXPECT_THAT(replayed(4), ElementsAre("apply a4"));
  EXPECT_THAT(replayed(5), ElementsAre("apply a5"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().gaps, 1U);
  EXPECT_EQ(sequencer_.counters().replays, 1U);
  EXPECT_EQ(sequencer_.counters().resets, 0U);
  EXPECT_EQ(sequencer_.counters().applied, 6U);
}

TEST_F(EventSequencerTest, AGapInTheBufferOfThePublisherIsALoss) {
  feed(3);
  (void)live(9);
  EXPECT_THAT(replayed(7), ElementsAre("reset", "apply a7"));
  EXPECT_THAT(replayed(8), ElementsAre("apply a8"));
  EXPECT_THAT(replay_end(), ElementsAre("apply a9"));
  EXPECT_FALSE(sequencer_.whole());
  EXPECT_THAT(live(10), ElementsAre("apply a10"));
}

TEST_F(EventSequencerTest, LiveFramesOlderThanATrimmedBufferAreDropped) {
  feed(3);
  (void)live(5);
  EXPECT_THAT(replayed(8), ElementsAre("reset", "apply a8"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_THAT(live(9), ElementsAre("apply a9"));
}

TEST_F(EventSequencerTest, AHoleWithinAReplayIsAskedForAgain) {
  feed(3);
  (void)live(8);
  EXPECT_THAT(replayed(2), IsEmpty());
  EXPECT_THAT(replayed(3), ElementsAre("apply a3"));
  EXPECT_THAT(replayed(6), IsEmpty());
  EXPECT_THAT(replay_end(), ElementsAre("replay 3"));
  for (const std::uint64_t n : {3U, 4U, 5U, 6U, 7U}) (void)replayed(n);
  EXPECT_THAT(replay_end(), ElementsAre("apply a8"));
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().applied, 9U);
}

TEST_F(EventSequencerTest, AHoleThatStaysIsALossAndIsRebuiltLater) {
  feed(3);
  (void)live(5);
  (void)replayed(2);
  EXPECT_THAT(replay_end(), ElementsAre("reset", "apply a5"));
  EXPECT_FALSE(sequencer_.whole());
  EXPECT_THAT(poll_after(seconds(9)), IsEmpty());
  EXPECT_THAT(poll_after(seconds(1)), ElementsAre("replay 0"));
  EXPECT_THAT(live(6), IsEmpty());
  EXPECT_THAT(replayed(0), ElementsAre("reset", "apply a0"));
  for (const std::uint64_t n : {1U, 2U, 3U, 4U, 5U}) (void)replayed(n);
  EXPECT_THAT(replay_end(), ElementsAre("apply a6"));
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt);
}

TEST_F(EventSequencerTest, LateLiveCopiesOfReplayedFramesAreDropped) {
  (void)connected();
  for (const std::uint64_t n : {0U, 1U, 2U}) (void)replayed(n);
  (void)replay_end();
  for (const std::uint64_t n : {0U, 1U, 2U}) EXPECT_THAT(live(n), IsEmpty()) << n;
  EXPECT_THAT(live(3), ElementsAre("apply a3"));
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().duplicates, 3U);
  EXPECT_EQ(sequencer_.counters().resets, 0U);
}

TEST_F(EventSequencerTest, AFallToZeroIsARestart) {
  feed(5);
  run_ = "b";
  EXPECT_THAT(live(0), ElementsAre("reset", "apply b0"));
  EXPECT_THAT(live(1), ElementsAre("apply b1"));
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().restarts, 1U);
}

TEST_F(EventSequencerTest, AFallToAnyKnownNumberWithOtherContentIsARestart) {
  feed(5);
  run_ = "b";
  EXPECT_THAT(live(3), ElementsAre("reset", "replay 0"));
  for (const std::uint64_t n : {0U, 1U, 2U, 3U}) EXPECT_THAT(replayed(n), ElementsAre("apply b" + std::to_string(n)));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, AReconnectionFindsTheSamePublisherByItsLastFrame) {
  feed(5);
  EXPECT_THAT(connected(), ElementsAre("replay 4"));
  EXPECT_THAT(replayed(4), IsEmpty());
  EXPECT_THAT(replayed(5), ElementsAre("apply a5"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().resets, 0U);
}

TEST_F(EventSequencerTest, AReconnectionToAYoungerRunStartsOver) {
  feed(5);
  run_ = "b";
  EXPECT_THAT(connected(), ElementsAre("replay 4"));
  EXPECT_THAT(replay_end(), ElementsAre("reset", "replay 0"));
  EXPECT_THAT(replayed(0), ElementsAre("apply b0"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, AReconnectionToARunThatHasPassedTheOldOneStartsOver) {
  feed(5);
  run_ = "b";
  EXPECT_THAT(connected(), ElementsAre("replay 4"));
  EXPECT_THAT(replayed(4), ElementsAre("reset"));
  EXPECT_THAT(replayed(5), IsEmpty());  // of the new run, but not from its start
  EXPECT_THAT(live(6), IsEmpty());
  EXPECT_THAT(replay_end(), ElementsAre("replay 0"));
  for (std::uint64_t n = 0; n < 7; ++n) EXPECT_THAT(replayed(n), ElementsAre("apply b" + std::to_string(n)));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, ARestartDuringAReplayWaitsForItsEnd) {
  feed(5);
  (void)live(9);
  (void)replayed(4);
  run_ = "b";
  EXPECT_THAT(live(2), ElementsAre("reset"));
  run_ = "a";
  EXPECT_THAT(replayed(5), IsEmpty()) << "of the run that ended";
  EXPECT_THAT(replay_end(), ElementsAre("replay 0"));
  run_ = "b";
  for (const std::uint64_t n : {0U, 1U, 2U}) EXPECT_THAT(replayed(n), ElementsAre("apply b" + std::to_string(n)));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, ARestartDuringAReplayThatNeverEndsWaitsForItsDeadline) {
  feed(5);
  (void)live(9);
  run_ = "b";
  EXPECT_THAT(live(2), ElementsAre("reset"));
  EXPECT_THAT(poll_after(seconds(5)), ElementsAre("replay 0"));
  for (const std::uint64_t n : {0U, 1U, 2U}) (void)replayed(n);
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, AReplayOfTheOldRunWithLiveFramesOfTheNewOneStartsOver) {
  feed(2);
  run_ = "b";
  EXPECT_THAT(live(3), ElementsAre("replay 1"));
  run_ = "a";
  for (const std::uint64_t n : {1U, 2U, 3U}) (void)replayed(n);
  EXPECT_THAT(replay_end(), ElementsAre("reset", "replay 0"));
  run_ = "b";
  for (const std::uint64_t n : {0U, 1U, 2U, 3U}) EXPECT_THAT(replayed(n), ElementsAre("apply b" + std::to_string(n)));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, AReplayWithoutAnAnswerEndsAtItsDeadline) {
  feed(3);
  (void)live(5);
  (void)live(6);
  EXPECT_EQ(sequencer_.next_wakeup(), kStart + seconds(5));
  EXPECT_THAT(poll_after(seconds(4)), IsEmpty());
  EXPECT_THAT(poll_after(seconds(1)), ElementsAre("reset", "apply a5", "apply a6"));
  EXPECT_FALSE(sequencer_.whole());
  EXPECT_THAT(live(7), ElementsAre("apply a7"));
  EXPECT_THAT(replayed(3), IsEmpty()) << "too late";
  EXPECT_THAT(replay_end(), IsEmpty());
}

TEST_F(EventSequencerTest, OnlyWhatFollowsTheLastGapIsKeptAtADeadline) {
  feed(3);
  for (const std::uint64_t n : {5U, 6U, 8U, 9U}) (void)live(n);
  EXPECT_THAT(poll_after(seconds(5)), ElementsAre("reset", "apply a8", "apply a9"));
}

TEST_F(EventSequencerTest, AReplayThatLacksOnlyItsEndLosesNothing) {
  feed(3);
  (void)live(5);
  for (const std::uint64_t n : {2U, 3U, 4U}) (void)replayed(n);
  EXPECT_THAT(poll_after(seconds(5)), ElementsAre("apply a5"));
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt);
}

TEST_F(EventSequencerTest, RebuildsAreTriedAtGrowingIntervalsAndKeepWhatThereIs) {
  feed(3);
  (void)live(5);
  EXPECT_THAT(poll_after(seconds(5)), ElementsAre("reset", "apply a5"));
  for (const int delay : {10, 20, 40, 80, 160, 300, 300}) {
    EXPECT_EQ(sequencer_.next_wakeup(), now_ + seconds(delay));
    EXPECT_THAT(poll_after(seconds(delay)), ElementsAre("replay 0"));
    // No replay comes, so the view stays. The pause before the next attempt counts from the start of this one.
    EXPECT_THAT(poll_after(seconds(5)), IsEmpty());
    now_ -= seconds(5);
  }
  EXPECT_EQ(sequencer_.counters().resets, 1U);
  EXPECT_THAT(live(6), ElementsAre("apply a6"));
}

// A publisher makes one frame of those that it no longer has, under the number of the last of them.
TEST_F(EventSequencerTest, ACompactionUnderAKnownNumberRebuildsAndIsNoRestart) {
  (void)connected();
  (void)replayed(5);  // nothing before is left, and the publisher has no compaction of it yet
  (void)replay_end();
  (void)live(6);
  (void)live(7);
  EXPECT_THAT(poll_after(seconds(10)), ElementsAre("replay 0"));
  EXPECT_THAT(live(8), IsEmpty());  // waits, and is in the compaction
  EXPECT_THAT(live(9), IsEmpty());
  const auto begun = texts(sequencer_.on_replayed(8, "0 to 8", now_));
  EXPECT_EQ(begun.front(), "reset");
  EXPECT_EQ(begun.back(), "apply 0 to 8");
  sequencer_.on_cleared(sequencer_.counters().resets);  // it begins with that
  EXPECT_THAT(replayed(9), ElementsAre("apply a9"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().restarts, 0U);
  EXPECT_THAT(live(10), ElementsAre("apply a10"));
}

TEST_F(EventSequencerTest, ACompactionOfAppliedFramesRebuildsAndIsNoRestart) {
  (void)connected();
  (void)replayed(5);
  (void)replay_end();
  for (std::uint64_t n = 6; n < 10; ++n) (void)live(n);
  EXPECT_THAT(poll_after(seconds(10)), ElementsAre("replay 0"));
  const auto begun = texts(sequencer_.on_replayed(7, "0 to 7", now_));
  EXPECT_EQ(begun.front(), "reset");
  EXPECT_EQ(begun.back(), "apply 0 to 7");
  sequencer_.on_cleared(sequencer_.counters().resets);
  EXPECT_THAT(replayed(8), ElementsAre("apply a8"));
  EXPECT_THAT(replayed(9), ElementsAre("apply a9"));
  EXPECT_THAT(replay_end(), IsEmpty());
  EXPECT_TRUE(sequencer_.whole());
  EXPECT_EQ(sequencer_.counters().restarts, 0U);
}

TEST_F(EventSequencerTest, TooManyLiveFramesEndAReplay) {
  use({.max_buffered = 3});
  feed(2);
  (void)live(5);
  (void)live(6);
  (void)live(7);
  EXPECT_THAT(live(8), ElementsAre("reset", "apply a5", "apply a6", "apply a7", "apply a8"));
  EXPECT_FALSE(sequencer_.whole());
  EXPECT_THAT(live(9), ElementsAre("apply a9"));
}

TEST_F(EventSequencerTest, TooManyBytesEndAReplay) {
  use({.max_buffered_bytes = 5});
  feed(2);
  (void)live(5);
  (void)live(6);
  EXPECT_THAT(live(7), ElementsAre("reset", "apply a5", "apply a6", "apply a7"));
}

TEST_F(EventSequencerTest, WithoutReplayAGapIsALossUntilARestart) {
  use({.replay_available = false});
  EXPECT_THAT(connected(), IsEmpty());
  feed(3);
  EXPECT_THAT(live(5), ElementsAre("reset", "apply a5"));
  EXPECT_FALSE(sequencer_.whole());
  EXPECT_EQ(sequencer_.next_wakeup(), std::nullopt);
  EXPECT_THAT(live(6), ElementsAre("apply a6"));
  run_ = "b";
  EXPECT_THAT(live(0), ElementsAre("reset", "apply b0"));
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, WithoutReplayALateStartIsALoss) {
  use({.replay_available = false});
  EXPECT_THAT(live(7), ElementsAre("reset", "apply a7"));
  EXPECT_FALSE(sequencer_.whole());
  use({.replay_available = false});
  EXPECT_THAT(live(1), ElementsAre("apply a1"));
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, WithoutReplayARestartBelowIsSeenToo) {
  use({.replay_available = false});
  feed(5);
  run_ = "b";
  EXPECT_THAT(live(3), ElementsAre("reset", "apply b3"));
  EXPECT_FALSE(sequencer_.whole());
}

TEST_F(EventSequencerTest, TheEndMarkersNumberIsNoFrame) {
  EXPECT_THAT(live(std::numeric_limits<std::uint64_t>::max()), IsEmpty());
  EXPECT_THAT(live(0), ElementsAre("apply a0"));
}

TEST_F(EventSequencerTest, AnAbsurdNumberHealsWithTheNextFrame) {
  feed(3);
  (void)live(1ULL << 60);
  (void)replayed(2);
  EXPECT_THAT(replay_end(), ElementsAre("reset", "apply a1152921504606846976"));
  EXPECT_THAT(live(3), ElementsAre("reset", "replay 0"));
  for (const std::uint64_t n : {0U, 1U, 2U, 3U}) (void)replayed(n);
  (void)replay_end();
  EXPECT_TRUE(sequencer_.whole());
}

TEST_F(EventSequencerTest, ResetsSayWhatWasLost) {
  feed(3);
  (void)live(9);
  const auto actions = sequencer_.on_replayed(7, "a7", now_);
  ASSERT_TRUE(std::holds_alternative<ResetWorker>(actions[0]));
  EXPECT_THAT(std::get<ResetWorker>(actions[0]).reason, StartsWith("events 3 to 6 are lost"));
}

}  // namespace
}  // namespace kvist::kv::event_sequencer_test
