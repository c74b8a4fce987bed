// A stream that goes on from where another subscriber of the same publisher stands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/kv/event_sequencer.h"

namespace kvist::kv::stream_position_test {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Fit = EventSequencer::Fit;

constexpr TimePoint kStart{seconds(1'000)};

/// A subscriber with what it applied since its last reset. Payloads are run and number: "a5".
class Subscriber {
 public:
  explicit Subscriber(bool replay_available = true) : sequencer_({.replay_available = replay_available}) {}

  std::vector<std::string> live(std::uint64_t n, const std::string& run = "a") {
    return obey(sequencer_.on_live(n, run + std::to_string(n), kStart));
  }
  std::vector<std::string> replayed(std::uint64_t n, const std::string& run = "a") {
    return obey(sequencer_.on_replayed(n, run + std::to_string(n), kStart));
  }
  std::vector<std::string> replay_end() { return obey(sequencer_.on_replay_end(kStart)); }
  std::vector<std::string> connected() { return obey(sequencer_.on_connected(kStart)); }
  /// Goes on from where another one stands, with all that that one applied.
  std::vector<std::string> resume(const Subscriber& peer) { return resume(peer.applied, *peer.position()); }
  std::vector<std::string> resume(const std::vector<std::string>& blocks, const StreamPosition& position) {
    EXPECT_EQ(sequencer_.fit(position), Fit::kFits);
    applied = blocks;
    return obey(sequencer_.resume(position, kStart));
  }
  [[nodiscard]] std::optional<StreamPosition> position() const { return sequencer_.position(); }
  EventSequencer& operator*() { return sequencer_; }

  std::vector<std::string> applied;

 private:
  std::vector<std::string> obey(const std::vector<SequencerAction>& actions) {
    std::vector<std::string> out;
    for (const SequencerAction& action : actions) {
      if (const auto* apply = std::get_if<ApplyPayload>(&action)) {
        applied.push_back(apply->payload);
        out.push_back(apply->payload);
      }
      if (std::holds_alternative<ResetWorker>(action)) {
        applied.clear();
        out.emplace_back("reset");
      }
      if (const auto* replay = std::get_if<RequestReplay>(&action))
        out.push_back("replay " + std::to_string(replay->from));
    }
    return out;
  }

  EventSequencer sequencer_;
};

std::vector<std::string> frames(std::uint64_t count, const std::string& run = "a") {
  std::vector<std::string> out;
  for (std::uint64_t n = 0; n < count; ++n) out.push_back(run + std::to_string(n));
  return out;
}

/// A subscriber of the whole stream.
Subscriber whole(std::uint64_t count, bool replay_available = true) {
  Subscriber made(replay_available);
  for (std::uint64_t n = 0; n < count; ++n) made.live(n);
  return made;
}

/// One that came late: of the first frames the publisher replays only those from `first` up to `count - 1`.
Subscriber late(std::uint64_t first, std::uint64_t count) {
  Subscriber made;
  EXPECT_THAT(made.connected(), ElementsAre("replay 0"));
  for (std::uint64_t n = first; n < count; ++n) made.replayed(n);
  made.replay_end();
  EXPECT_TRUE((*made).lost());
  return made;
}

TEST(StreamPositionTest, OnlyAWholeStreamHasOne) {
  EXPECT_EQ(Subscriber().position(), std::nullopt) << "nothing was published yet";
  const Subscriber peer = whole(3);
  ASSERT_TRUE(peer.position());
  EXPECT_EQ(peer.position()->next, 3U);
  EXPECT_EQ(peer.position()->digests.size(), 3U);
  EXPECT_TRUE(peer.position()->counts_from_zero);
  EXPECT_EQ(late(5, 9).position(), std::nullopt);
}

TEST(StreamPositionTest, AFrameThatBothSawProvesTheRunSoThatNoReplayIsNeeded) {
  Subscriber here = late(6, 8);
  EXPECT_THAT(here.resume(whole(10)), IsEmpty());
  EXPECT_TRUE((*here).whole());
  EXPECT_THAT(here.live(8), IsEmpty()) << "is in the snapshot";
  EXPECT_THAT(here.live(9), IsEmpty());
  EXPECT_THAT(here.live(10), ElementsAre("a10"));
  EXPECT_EQ(here.applied, frames(11));
  EXPECT_EQ((*here).next_wakeup(), std::nullopt) << "nothing is to be rebuilt";
}

TEST(StreamPositionTest, KeptFramesFollowAnOlderPosition) {
  Subscriber here = late(6, 8);
  (*here).keep_frames();
  for (std::uint64_t n = 8; n < 12; ++n) here.live(n);
  EXPECT_THAT(here.resume(whole(9)), ElementsAre("a9", "a10", "a11"));
  EXPECT_TRUE((*here).whole());
  EXPECT_THAT(here.live(12), ElementsAre("a12"));
  EXPECT_EQ(here.applied, frames(13));
}

TEST(StreamPositionTest, FramesThatWereNotKeptComeByReplay) {
  Subscriber here = late(6, 12);
  EXPECT_THAT(here.resume(whole(9)), ElementsAre("replay 8"));
  EXPECT_FALSE((*here).whole());
  here.live(12);
  for (std::uint64_t n = 8; n < 12; ++n) here.replayed(n);
  here.replay_end();
  EXPECT_TRUE((*here).whole());
  EXPECT_EQ(here.applied, frames(13));
}

TEST(StreamPositionTest, WithoutACommonFrameTheReplayHasToBringTheLastOne) {
  Subscriber here = late(6, 8);
  (*here).keep_frames();
  here.live(8);
  const Subscriber peer = whole(6);
  EXPECT_THAT(here.resume(peer), ElementsAre("replay 5")) << "it lies right before what is known here";
  EXPECT_FALSE((*here).whole());
  EXPECT_THAT(here.replayed(5), IsEmpty());
  EXPECT_THAT(here.replayed(6), ElementsAre("a6"));
  EXPECT_THAT(here.replayed(7), ElementsAre("a7"));
  EXPECT_THAT(here.replay_end(), ElementsAre("a8"));
  EXPECT_TRUE((*here).whole());
  EXPECT_EQ(here.applied, frames(9));
}

TEST(StreamPositionTest, AGapThrowsTheBlocksAway) {
  Subscriber here = late(6, 8);
  here.resume(whole(3));
  EXPECT_THAT(here.replayed(6), ElementsAre("reset", "a6"));
  here.replayed(7);
  here.replay_end();
  EXPECT_FALSE((*here).whole());
  EXPECT_TRUE((*here).lost());
  EXPECT_THAT(here.applied, ElementsAre("a6", "a7"));
}

TEST(StreamPositionTest, AnotherRunThrowsTheBlocksAway) {
  Subscriber here = late(6, 8);
  here.resume(
      frames(6, "old"), *[] {
        Subscriber peer;
        for (std::uint64_t n = 0; n < 6; ++n) peer.live(n, "old");
        return peer.position();
      }());
  EXPECT_THAT(here.replayed(5), ElementsAre("reset"));
  EXPECT_FALSE((*here).whole());
}

TEST(StreamPositionTest, AnEmptyReplayThrowsTheBlocksAway) {
  Subscriber here = late(6, 8);
  here.resume(whole(3));
  EXPECT_THAT(here.replay_end(), ElementsAre("reset", "replay 0")) << "the publisher has restarted";
}

TEST(StreamPositionTest, ACommonFrameOfAnotherContentIsSeenBefore) {
  Subscriber here = late(6, 8);
  Subscriber peer;
  for (std::uint64_t n = 0; n < 9; ++n) peer.live(n, "old");
  EXPECT_EQ((*here).fit(*peer.position()), Fit::kOtherRun);
}

TEST(StreamPositionTest, NothingIsTakenWhereNothingIsMissing) {
  Subscriber here = whole(5);
  EXPECT_EQ((*here).fit(*whole(7).position()), Fit::kNotLost);
  Subscriber asking;
  asking.connected();
  EXPECT_EQ((*asking).fit(*whole(7).position()), Fit::kNotLost) << "the replay may bring it all";
}

TEST(StreamPositionTest, WithoutReplayARunIsProvenByACommonFrameOnly) {
  Subscriber here(false);
  EXPECT_THAT(here.live(7), ElementsAre("reset", "a7"));
  EXPECT_TRUE((*here).lost());
  EXPECT_EQ((*here).fit(*whole(7, false).position()), Fit::kUnproven);
  here.live(8);
  here.live(9);
  EXPECT_EQ((*here).fit(*whole(8, false).position()), Fit::kTooOld) << "8 and 9 were not kept";
  (*here).keep_frames();
  here.live(10);
  const Subscriber peer = whole(10, false);
  EXPECT_THAT(here.resume(peer), ElementsAre("a10"));
  EXPECT_TRUE((*here).whole());
  EXPECT_EQ(here.applied, frames(11));
}

TEST(StreamPositionTest, KeptFramesAreBounded) {
  EventSequencer sequencer({.replay_available = false, .max_kept_bytes = 10});
  (void)sequencer.on_live(100, "abcd", kStart);
  sequencer.keep_frames();
  for (std::uint64_t n = 101; n < 110; ++n) (void)sequencer.on_live(n, "abcd", kStart);
  Subscriber peer;
  for (std::uint64_t n = 0; n < 110; ++n) (void)(*peer).on_live(n, "abcd", kStart);
  const StreamPosition position = *peer.position();
  const auto at = [&](std::uint64_t next) {
    StreamPosition earlier = position;
    earlier.next = next;
    earlier.digests.resize(next);
    return sequencer.fit(earlier);
  };
  EXPECT_EQ(at(109), Fit::kFits);
  EXPECT_EQ(at(108), Fit::kFits) << "the last two frames";
  EXPECT_EQ(at(107), Fit::kTooOld);
}

/// A publisher with a short buffer, a subscriber that never missed anything, and one that comes late and takes what
/// the other has, a while later. In between the publisher goes on, and may restart.
class LateSubscriber {
 public:
  LateSubscriber(std::uint64_t seed, bool replay_available)
      : random_(seed), replays_(replay_available), peer_(replay_available), here_(replay_available) {}

  void run() {
    publish(30 + random_.next() % 30, /*is_heard=*/false);
    if (replays_) serve(here_, here_.connected());
    for (int round = 0; round < 20; ++round) {
      publish(random_.next() % 4, true);
      if (!(*here_).lost() || !peer_.position()) continue;
      if (random_.uniform() < 0.7) (*here_).keep_frames();
      publish(random_.next() % 8, true);
      const std::vector<std::string> blocks = peer_.applied;
      const std::optional<StreamPosition> position = peer_.position();
      if (random_.uniform() < 0.1) restart();
      publish(random_.next() % 12, true);
      if (!position || (*here_).fit(*position) != Fit::kFits) continue;
      ++taken_;
      serve(here_, here_.resume(blocks, *position));
      check();
    }
    publish(3, true);
    check();
  }
  [[nodiscard]] int taken() const { return taken_; }
  [[nodiscard]] bool ended_whole() { return (*here_).whole(); }

 private:
  static constexpr std::size_t kBuffered = 10;

  [[nodiscard]] std::string payload(std::uint64_t n) const { return run_ + std::to_string(n); }
  void restart() {
    run_ += "'";
    next_ = 0;
    publish(1, true);  // nobody can know of it before
  }
  void publish(std::uint64_t count, bool is_heard) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t n = next_++;
      serve(peer_, peer_.live(n, run_));
      if (is_heard) serve(here_, here_.live(n, run_));
    }
  }
  void serve(Subscriber& subscriber, const std::vector<std::string>& actions) {
    for (const std::string& action : actions) {
      if (!action.starts_with("replay ")) continue;
      const std::uint64_t from = std::stoull(action.substr(7));
      const std::uint64_t oldest = next_ > kBuffered ? next_ - kBuffered : 0;
      for (std::uint64_t n = std::max(from, oldest); n < next_; ++n) serve(subscriber, subscriber.replayed(n, run_));
      serve(subscriber, subscriber.replay_end());
    }
  }
  void check() {
    if (!(*here_).whole()) return;
    std::vector<std::string> want;
    for (std::uint64_t n = 0; n < next_; ++n) want.push_back(payload(n));
    ASSERT_EQ(here_.applied, want) << "what is called whole is";
  }

  RandomStream random_;
  bool replays_;
  Subscriber peer_;
  Subscriber here_;
  std::string run_ = "a";
  std::uint64_t next_ = 0;
  int taken_ = 0;
};

TEST(StreamPositionProperty, WhatIsCalledWholeAfterwardsIsTheWholeRun) {
  for (const bool replay_available : {true, false}) {
    int taken = 0;
    int ended_whole = 0;
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", replay " << replay_available);
      LateSubscriber world(seed, replay_available);
      world.run();
      if (testing::Test::HasFatalFailure()) return;
      taken += world.taken();
      ended_whole += world.ended_whole() ? 1 : 0;
    }
    EXPECT_GT(taken, 400);
    EXPECT_GT(ended_whole, 450);
  }
}

}  // namespace
}  // namespace kvist::kv::stream_position_test
