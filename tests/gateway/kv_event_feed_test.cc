// A worker's feed of KV events, with a publisher of its own.
#include "kvist/gateway/kv_event_feed.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "kvist/net/zmq_publisher.h"
#include "kvist/routing/router.h"
#include "net/loop_thread.h"

namespace kvist::gateway::kv_event_feed_test {
namespace {

using std::chrono::milliseconds;

class KvEventFeedTest : public testing::Test {
 protected:
  void SetUp() override {
    auto publisher = net::ZmqPublisher::bind(
        {.endpoint = "tcp://127.0.0.1:0", .replay_endpoint = "tcp://127.0.0.1:0", .topic = "kv"});
    ASSERT_TRUE(publisher) << publisher.error().message;
    publisher_ = std::move(*publisher);
    const auto at = [](std::uint16_t port) { return "tcp://127.0.0.1:" + std::to_string(port); };
    thread_.run([&] {
      shared_ = {.loop = &thread_.loop(), .index = &router_.event_index()};
      auto feed = KvEventFeed::connect(*receiver_, shared_, WorkerId(0),
                                       {.name = "w",
                                        .url = "http://127.0.0.1:1",
                                        .kv_events = at(publisher_->port()),
                                        .kv_replay = at(publisher_->replay_port())},
                                       [](const KvFeedNews&) {});
      ASSERT_TRUE(feed) << feed.error().message;
      feed_ = std::move(*feed);
    });
  }
  ~KvEventFeedTest() override {
    thread_.run([&] { feed_.reset(); });
    thread_.stop();
  }

  void publish() {
    publisher_->publish("what it says does not matter");
    ++published_;
  }
  /// Publishes until the feed has had all, because a publisher knows of a subscription only some time after the
  /// connection.
  [[nodiscard]] bool catch_up() {
    constexpr int kMostTries = 1'000;
    for (int i = 0; i < kMostTries; ++i) {
      publish();
      std::this_thread::sleep_for(milliseconds(10));
      if (thread_.run([&] { return feed_->report().sequencer.applied == published_; })) return true;
    }
    return false;
  }

  std::uint64_t published_ = 0;
  std::unique_ptr<net::ZmqPublisher> publisher_;
  std::shared_ptr<net::ZmqReceiver> receiver_ = net::ZmqReceiver::create();
  routing::Router router_{{.model = "m", .workers = 1}};
  KvEventFeed::Shared shared_;
  net::LoopThread thread_;
  std::shared_ptr<KvEventFeed> feed_;
};

// The worker says so on another connection, while its frames still wait for the loop.
TEST_F(KvEventFeedTest, WhatAWorkerSaysOfItsStreamDoesNotOvertakeTheStream) {
  ASSERT_TRUE(catch_up());
  const auto before = thread_.run([&] { return feed_->report().sequencer; });
  thread_.run([&] {
    constexpr int kFrames = 3;
    for (int i = 0; i < kFrames; ++i) publish();
    for (int i = 0; i < 1'000 && feed_->report().waiting_bytes < kFrames * KvEventInbox::kFrameBytes; ++i)
      std::this_thread::sleep_for(milliseconds(10));
    ASSERT_GE(feed_->report().waiting_bytes, kFrames * KvEventInbox::kFrameBytes);
    feed_->on_published(published_);
    feed_->on_published(published_);
  });
  ASSERT_TRUE(thread_.wait([&] { return feed_->report().sequencer.applied == published_; }));
  const auto after = thread_.run([&] { return feed_->report().sequencer; });
  EXPECT_EQ(after.gaps, before.gaps);
  EXPECT_EQ(after.replays, before.replays);
}

TEST_F(KvEventFeedTest, ALossAtTheEndShowsByWhatTheWorkerSays) {
  ASSERT_TRUE(catch_up());
  const auto before = thread_.run([&] { return feed_->report().sequencer; });
  thread_.run([&] {
    feed_->on_published(published_ + 2);
    feed_->on_published(published_ + 2);
  });
  ASSERT_TRUE(thread_.wait([&] { return feed_->report().sequencer.gaps == before.gaps + 1; }));
  thread_.run([&] { feed_->on_worker_restarted(); });
  EXPECT_TRUE(thread_.wait([&] { return feed_->report().waiting_bytes == 0; }));
}

}  // namespace
}  // namespace kvist::gateway::kv_event_feed_test
