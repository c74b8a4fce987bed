// Two feeds of one publisher whose replay is short: the late one gets the worker's part from the other one.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "kvist/gateway/kv_event_feed.h"
#include "kvist/kv/kv_event_codec.h"
#include "kvist/net/zmq_publisher.h"
#include "kvist/peering/index_codec.h"
#include "kvist/routing/router.h"
#include "net/loop_thread.h"

namespace kvist::gateway::kv_event_parts_test {
namespace {

using std::chrono::milliseconds;
using Part = std::variant<peering::PartRefusal, peering::ExportedPart>;

constexpr std::uint32_t kBlockSize = 16;

class KvEventPartsTest : public testing::Test {
 protected:
  /// A gateway's feed with the index that it writes.
  struct Follower {
    routing::Router router{{.model = "m", .block_size = kBlockSize, .workers = 1}};
    KvEventFeed::Shared shared;
    std::shared_ptr<KvEventFeed> feed;
    KvFeedNews told;
  };

  void SetUp() override {
    auto publisher = net::ZmqPublisher::bind(
        {.endpoint = "tcp://127.0.0.1:0", .replay_endpoint = "tcp://127.0.0.1:0", .topic = "kv", .buffer_messages = 3});
    ASSERT_TRUE(publisher) << publisher.error().message;
    publisher_ = std::move(*publisher);
    follow(early_);
    for (int i = 0; i < 30; ++i) {
      publish();
      ASSERT_TRUE(eventually([&] { return has_all(early_); })) << "batch " << i;
    }
    ASSERT_TRUE(exact(early_));
  }
  ~KvEventPartsTest() override {
    thread_.run([&] {
      early_.feed.reset();
      late_.feed.reset();
    });
    thread_.stop();
  }

  void follow(Follower& follower) {
    const auto at = [](std::uint16_t port) { return "tcp://127.0.0.1:" + std::to_string(port); };
    thread_.run([&] {
      follower.shared = {.loop = &thread_.loop(), .index = &follower.router.event_index()};
      auto feed = KvEventFeed::connect(*receiver_, follower.shared, WorkerId(0),
                                       {.name = "w",
                                        .url = "http://127.0.0.1:1",
                                        .kv_events = at(publisher_->port()),
                                        .kv_replay = at(publisher_->replay_port())},
                                       [&follower](const KvFeedNews& news) { follower.told = news; });
      ASSERT_TRUE(feed) << feed.error().message;
      follower.feed = std::move(*feed);
    });
    ASSERT_TRUE(
        eventually([&] { return thread_.run([&] { return follower.feed->report().exact || follower.told.lost; }); }));
    // ZeroMQ subscribes in the background. What is published before is missed, and asked for when nothing has come for
    // ten seconds; the tests begin afterwards.
    const std::uint64_t before = applied(follower);
    publish();
    ASSERT_TRUE(eventually([&] { return applied(follower) > before; }));
    ASSERT_TRUE(eventually([&] { return has_all(early_); }));
  }

  /// One block more of one prefix.
  void publish() {
    const auto block = static_cast<std::uint32_t>(published_++);
    kv::BlockStored stored;
    stored.hashes = {kv::ExternalHash(1'000 + block)};
    stored.block_size = kBlockSize;
    if (block > 0) stored.parent = kv::ExternalHash(1'000 + block - 1);
    for (std::uint32_t i = 0; i < kBlockSize; ++i) stored.tokens.emplace_back(block * kBlockSize + i);
    publisher_->publish(
        kv::encode_kv_events({.timestamp_s = 1.0 * block, .events = {stored}, .data_parallel_rank = {}}));
  }
  [[nodiscard]] static bool eventually(const std::function<bool()>& holds) {
    constexpr int kMostTries = 6'000;  // half a minute
    for (int i = 0; i < kMostTries; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }
  [[nodiscard]] std::size_t blocks(Follower& follower) {
    return thread_.run([&] { return follower.router.event_index().index().worker_blocks(WorkerId(0)); });
  }
  [[nodiscard]] std::uint64_t applied(Follower& follower) {
    return thread_.run([&] { return follower.feed->report().sequencer.applied; });
  }
  [[nodiscard]] bool has_all(Follower& follower) { return blocks(follower) == published_; }
  [[nodiscard]] bool exact(Follower& follower) {
    return thread_.run([&] { return follower.feed->report().exact; });
  }

  Part take_out(Follower& follower) {
    std::optional<Part> got;
    thread_.run([&] { follower.feed->export_part([&](Part part) { got = std::move(part); }); });
    EXPECT_TRUE(eventually([&] { return thread_.run([&] { return got.has_value(); }); }));
    return thread_.run([&] { return *got; });
  }
  std::string put_in(Follower& follower, const peering::ExportedPart& exported) {
    auto part = std::make_shared<peering::WorkerPart>();
    part->head = {.position = exported.position, .blocks = exported.blocks};
    for (const std::string& piece : exported.pieces) {
      const std::string bytes = peering::encode_answer(peering::TransferId(1), 0, piece);
      auto read = peering::decode_answer({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
      EXPECT_TRUE(read);
      part->pieces.push_back(std::get<peering::NumberedPiece>(read->what).piece);
    }
    std::optional<std::string> got;
    thread_.run([&] { follower.feed->import_part(part, [&](std::string_view problem) { got = problem; }); });
    EXPECT_TRUE(eventually([&] { return thread_.run([&] { return got.has_value(); }); }));
    return thread_.run([&] { return *got; });
  }

  std::uint64_t published_ = 0;
  std::unique_ptr<net::ZmqPublisher> publisher_;
  std::shared_ptr<net::ZmqReceiver> receiver_ = net::ZmqReceiver::create();
  Follower early_;
  Follower late_;
  net::LoopThread thread_;
};

TEST_F(KvEventPartsTest, TheLateOneKnowsAllFromThereOn) {
  follow(late_);
  ASSERT_TRUE(thread_.run([&] { return late_.told.lost && !late_.told.exact; }));
  EXPECT_EQ(blocks(late_), 0U) << "the parents of what is replayed are not known";
  const Part part = take_out(early_);
  ASSERT_TRUE(std::holds_alternative<peering::ExportedPart>(part));
  EXPECT_EQ(std::get<peering::ExportedPart>(part).blocks, published_);
  EXPECT_EQ(put_in(late_, std::get<peering::ExportedPart>(part)), "");
  EXPECT_TRUE(exact(late_));
  EXPECT_TRUE(thread_.run([&] { return late_.told.exact && !late_.told.lost; })) << "and routing was told so";
  EXPECT_TRUE(has_all(late_));
  for (int i = 0; i < 5; ++i) {
    publish();
    EXPECT_TRUE(eventually([&] { return has_all(early_) && has_all(late_); })) << "batch " << i;
  }
  EXPECT_TRUE(exact(early_));
  EXPECT_TRUE(exact(late_));
  EXPECT_EQ(thread_.run([&] { return late_.feed->report().sequencer.restarts; }), 0U);
}

TEST_F(KvEventPartsTest, WhatComesMeanwhileFollowsAnOldPart) {
  follow(late_);
  const Part part = take_out(early_);
  thread_.run([&] { late_.feed->keep_frames(true); });
  const std::uint64_t before = applied(late_);
  for (std::uint64_t i = 1; i <= 10; ++i) {
    publish();
    ASSERT_TRUE(eventually([&] { return applied(late_) >= before + i; }));
  }
  EXPECT_EQ(put_in(late_, std::get<peering::ExportedPart>(part)), "");
  EXPECT_TRUE(exact(late_));
  EXPECT_TRUE(has_all(late_)) << "ten batches, of which a replay has three";
}

TEST_F(KvEventPartsTest, APartThatIsTooOldIsForgottenAgain) {
  follow(late_);
  const Part part = take_out(early_);
  for (int i = 0; i < 10; ++i) {
    publish();
    ASSERT_TRUE(eventually([&] { return has_all(early_); }));
  }
  ASSERT_TRUE(eventually([&] { return applied(late_) >= 10; }));
  EXPECT_EQ(put_in(late_, std::get<peering::ExportedPart>(part)), "") << "a replay may bring what is missing";
  EXPECT_TRUE(eventually([&] { return thread_.run([&] { return late_.told.lost; }); })) << "but does not";
  EXPECT_FALSE(exact(late_));
  EXPECT_EQ(blocks(late_), 0U);
  // A newer one is good.
  const Part newer = take_out(early_);
  EXPECT_EQ(put_in(late_, std::get<peering::ExportedPart>(newer)), "");
  EXPECT_TRUE(exact(late_) && has_all(late_));
}

TEST_F(KvEventPartsTest, OnlyWhoKnowsGivesAndOnlyWhoLacksTakes) {
  follow(late_);
  EXPECT_EQ(std::get<peering::PartRefusal>(take_out(late_)), peering::PartRefusal::kNotExact);
  const auto part = std::get<peering::ExportedPart>(take_out(early_));
  EXPECT_EQ(put_in(early_, part), "not_lost");
  EXPECT_TRUE(exact(early_) && has_all(early_)) << "nothing has changed";
  peering::ExportedPart hostile = part;
  hostile.pieces = {peering::encode_piece(
      {.runs = {{.parent = 5, .blocks = 1}}, .keys = {kv::BlockHash(1)}, .names = {kv::ExternalHash(1)}})};
  EXPECT_EQ(put_in(late_, hostile), "refused");
  EXPECT_TRUE(thread_.run([&] { return late_.told.lost; }));
  EXPECT_EQ(blocks(late_), 0U);
}

TEST_F(KvEventPartsTest, OneThatEndsMeanwhileSaysSo) {
  follow(late_);
  std::optional<Part> got;
  std::optional<std::string> problem;
  const auto part = std::get<peering::ExportedPart>(take_out(early_));
  thread_.run([&] {
    early_.feed->export_part([&](Part result) { got = std::move(result); });
    early_.feed.reset();
    auto one = std::make_shared<peering::WorkerPart>();
    one->head = {.position = part.position};
    one->pieces.resize(2);
    late_.feed->import_part(one, [&](std::string_view text) { problem = text; });
    late_.feed.reset();
    EXPECT_TRUE(got && std::holds_alternative<peering::PartRefusal>(*got));
    EXPECT_EQ(problem, "gone");
  });
}

}  // namespace
}  // namespace kvist::gateway::kv_event_parts_test
