// The sequencer between a naive publisher and a naive subscriber, with every kind of fault in between: lost, duplicate
// and late frames, dead replays, trimmed buffers, restarts. Once the network heals, both must agree.
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "kvist/base/random.h"
#include "kvist/kv/event_sequencer.h"

namespace kvist::kv::event_sequencer_property_test {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);

struct Frame {
  enum class Kind : std::uint8_t { kLive, kReplayed, kReplayEnd, kConnected };
  Kind kind = Kind::kLive;
  std::uint64_t sequence = 0;
  std::string payload;
};

/// Publishes "run:number" and keeps the last ones for replay.
struct Publisher {
  std::uint64_t first_number = 0;  // 0 or 1
  std::size_t buffer_limit = 0;
  int run = 0;
  std::uint64_t next = 0;
  std::deque<Frame> buffer;

  void restart() {
    ++run;
    next = first_number;
    buffer.clear();
  }
  Frame publish() {
    Frame frame{Frame::Kind::kLive, next, payload(next)};
    ++next;
    buffer.push_back(frame);
    if (buffer.size() > buffer_limit) buffer.pop_front();
    return frame;
  }
  [[nodiscard]] std::string payload(std::uint64_t number) const {
    return std::to_string(run) + ":" + std::to_string(number);
  }
};

class World {
 public:
  /// `spoilt`: the share of live frames that arrive as nonsense.
  World(std::uint64_t seed, std::size_t buffer_limit, bool replay_available, double spoilt = 0)
      : random_(seed),
        spoilt_(spoilt),
        sequencer_(EventSequencer::Options{.replay_available = replay_available, .max_buffered = 50}),
        replay_available_(replay_available) {
    publisher_.first_number = random_.next() % 2;
    publisher_.buffer_limit = buffer_limit;
    publisher_.restart();
    live_.push_back({Frame::Kind::kConnected, 0, ""});
  }

  void troubled_tick() {
    if (chance(0.02)) restart_publisher();
    if (chance(0.02)) live_.push_back({Frame::Kind::kConnected, 0, ""});
    if (chance(0.7)) send_live(publisher_.publish());
    deliver();
  }

  void calm_tick() {
    calm_ = true;
    live_.push_back(publisher_.publish());
    deliver();
  }

  /// The frames applied since the last reset.
  [[nodiscard]] const std::vector<std::string>& applied() const { return applied_; }
  [[nodiscard]] const Publisher& publisher() const { return publisher_; }
  [[nodiscard]] const EventSequencer& sequencer() const { return sequencer_; }

  /// Whether the applied frames are an uninterrupted part of one run.
  [[nodiscard]] bool uninterrupted() const {
    for (std::size_t i = 1; i < applied_.size(); ++i)
      if (applied_[i] != successor(applied_[i - 1])) return false;
    return true;
  }

 private:
  static std::string successor(const std::string& payload) {
    const auto colon = payload.find(':');
    return payload.substr(0, colon + 1) + std::to_string(std::stoull(payload.substr(colon + 1)) + 1);
  }

  bool chance(double probability) { return random_.uniform() < probability; }

  void restart_publisher() {
    publisher_.restart();
    // Frames in flight may still arrive or be lost with the connection; so may a replay or its end.
    if (chance(0.5)) live_.clear();
    if (chance(0.5)) replayed_.clear();
    if (chance(0.3)) send_live(publisher_.publish());
    live_.push_back({Frame::Kind::kConnected, 0, ""});
  }

  void send_live(const Frame& frame) {
    if (chance(0.1)) return;
    live_.push_back(frame);
    if (spoilt_ > 0 && chance(spoilt_)) live_.back().payload = kNonsense + frame.payload;
    if (chance(0.1)) live_.push_back(frame);
  }

  void answer(std::uint64_t from) {
    if (!calm_ && chance(0.1)) return;  // the request is lost
    for (Frame frame : publisher_.buffer) {
      // Frame 0 is never lost alone: the result would look like a publisher that counts from 1.
      const bool start = frame.sequence == 0;
      if (frame.sequence < from || (!calm_ && !start && chance(0.05))) continue;
      frame.kind = Frame::Kind::kReplayed;
      replayed_.push_back(frame);
      if (!calm_ && chance(0.05)) replayed_.push_back(frame);
    }
    if (calm_ || !chance(0.1)) replayed_.push_back({Frame::Kind::kReplayEnd, 0, ""});
  }

  /// Delivers what two connections carry: each in order, neither waits for the other, both slow while there is trouble.
  void deliver() {
    now_ += kTick;
    obey(sequencer_.poll(now_));
    for (int i = 0; calm_ ? !live_.empty() || !replayed_.empty() : i < 8; ++i) {
      auto& queue = chance(0.5) ? live_ : replayed_;
      if (queue.empty()) continue;
      const Frame frame = std::move(queue.front());
      queue.pop_front();
      hand_over(frame);
    }
  }

  void hand_over(const Frame& frame) {
    switch (frame.kind) {
      case Frame::Kind::kLive:
        return obey(sequencer_.on_live(frame.sequence, frame.payload, now_));
      case Frame::Kind::kReplayed:
        return obey(sequencer_.on_replayed(frame.sequence, frame.payload, now_));
      case Frame::Kind::kReplayEnd:
        return obey(sequencer_.on_replay_end(now_));
      case Frame::Kind::kConnected:
        return obey(sequencer_.on_connected(now_));
    }
  }

  void obey(const std::vector<SequencerAction>& actions) {
    for (const SequencerAction& action : actions) {
      if (const auto* apply = std::get_if<ApplyPayload>(&action)) take(*apply);
      if (std::holds_alternative<ResetWorker>(action)) applied_.clear();
      if (const auto* replay = std::get_if<RequestReplay>(&action)) {
        ASSERT_TRUE(replay_available_);
        answer(replay->from);
      }
    }
  }

  void take(const ApplyPayload& batch) {
    if (batch.payload.starts_with(kNonsense)) return sequencer_.on_unreadable(batch.view, now_);
    applied_.push_back(batch.payload);
  }

  static constexpr char kNonsense = '?';

  RandomStream random_;
  double spoilt_;
  Publisher publisher_;
  EventSequencer sequencer_;
  bool replay_available_;
  bool calm_ = false;
  TimePoint now_{};
  std::deque<Frame> live_;
  std::deque<Frame> replayed_;
  std::vector<std::string> applied_;
};

constexpr int kWorlds = 300;
constexpr int kTroubledTicks = 400;
constexpr int kCalmTicks = 4'000;  // longer than the longest pause before a rebuild

void run(World& world) {
  for (int i = 0; i < kTroubledTicks; ++i) world.troubled_tick();
  for (int i = 0; i < kCalmTicks; ++i) world.calm_tick();
}

TEST(EventSequencerProperty, HealsCompletelyWhileThePublisherStillHasAll) {
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(seed, 100'000, true);
    run(world);
    ASSERT_TRUE(world.sequencer().whole());
    std::vector<std::string> want;
    for (const Frame& frame : world.publisher().buffer) want.push_back(frame.payload);
    ASSERT_EQ(world.applied(), want);
  }
}

TEST(EventSequencerProperty, HealsCompletelyAfterNonsenseToo) {
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(seed, 100'000, true, 0.05);
    run(world);
    ASSERT_TRUE(world.sequencer().whole());
    std::vector<std::string> want;
    for (const Frame& frame : world.publisher().buffer) want.push_back(frame.payload);
    ASSERT_EQ(world.applied(), want);
  }
}

TEST(EventSequencerProperty, NeverClaimsMoreThanItHasWhenTheBufferIsTrimmed) {
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(seed, 10, true);
    run(world);
    ASSERT_FALSE(world.applied().empty());
    ASSERT_TRUE(world.uninterrupted());
    ASSERT_EQ(world.applied().back(), world.publisher().payload(world.publisher().next - 1));
    if (world.sequencer().whole()) {
      // If frame 0 alone was trimmed, the rest looks like a publisher that counts from 1.
      const std::string& front = world.applied().front();
      ASSERT_TRUE(front == world.publisher().payload(0) || front == world.publisher().payload(1)) << front;
    }
  }
}

TEST(EventSequencerProperty, FollowsTheStreamWithoutReplay) {
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(seed, 10, false);
    run(world);
    ASSERT_FALSE(world.applied().empty());
    ASSERT_TRUE(world.uninterrupted());
    ASSERT_EQ(world.applied().back(), world.publisher().payload(world.publisher().next - 1));
  }
}

}  // namespace
}  // namespace kvist::kv::event_sequencer_property_test
