// Requests that are held, as the loop that routes sees them.
#include "kvist/gateway/routing_channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "dispatch/hold_rig.h"
#include "kvist/net/event_loop.h"

namespace kvist::gateway::routing_channel_test {
namespace {

using dispatch::hold_rig::prompt;

/// One that asks, and what it was told.
struct Client {
  std::shared_ptr<std::atomic<bool>> left = std::make_shared<std::atomic<bool>>(false);
  std::optional<dispatch::Started> told = {};
};

class LocalChannelTest : public dispatch::hold_rig::HoldRig, public testing::Test {
 protected:
  // What fills the caches is over before the channel's clock begins.
  LocalChannelTest() : HoldRig(net::now() - std::chrono::seconds(10)) {
    make({.max_in_flight = 4});
    fill();
    channel_ = std::make_unique<LocalChannel>(*dispatcher_);
    channel_->on_room([this](bool has_room) { room_.push_back(has_room); });
  }
  void start(Client& client, std::uint64_t conversation, std::size_t hundredths = 40) {
    channel_->start(prompt(conversation, hundredths), client.left,
                    [&client](const dispatch::Started& started) { client.told = started; });
  }
  void leave(Client& client) {
    *client.left = true;
    channel_->on_left(client.left);
  }

  std::unique_ptr<LocalChannel> channel_;
  std::vector<bool> room_;
};

TEST_F(LocalChannelTest, WhoLeavesIsForgottenAndGivesThePlaceBack) {
  Client first;
  Client second;
  Client stranger;
  start(first, 7);
  start(second, 8);
  EXPECT_EQ(dispatcher_->held(), 2U);
  EXPECT_EQ(room_, std::vector{false}) << "two are held and two under way";
  leave(stranger);
  EXPECT_EQ(dispatcher_->held(), 2U);
  leave(first);
  EXPECT_EQ(dispatcher_->held(), 1U);
  EXPECT_EQ(room_, (std::vector{false, true})) << "at once";
  ASSERT_TRUE(first.told && !*first.told);
  EXPECT_EQ(first.told->error().code, ErrorCode::kCancelled);
  EXPECT_EQ(first.told->error().outcome, dispatch::Outcome::kClientGone);
  EXPECT_FALSE(second.told);
  leave(first);
  channel_->release();
  EXPECT_EQ(dispatcher_->held(), 1U);
}

TEST_F(LocalChannelTest, WhoHasAWorkerIsNotHeldAndLeavesTheWorker) {
  Client client;
  start(client, 0, 81);
  ASSERT_TRUE(client.told && *client.told) << "it goes on with what is cached";
  leave(client);
  EXPECT_EQ(dispatcher_->in_flight(), 3U) << "until finish()";
  channel_->finish((*client.told)->handle, dispatch::Outcome::kClientGone);
  EXPECT_EQ(dispatcher_->in_flight(), 2U);
  EXPECT_TRUE(room_.empty());
}

TEST_F(LocalChannelTest, WhatIsHeldAtTheEndIsRefusedAndGivesThePlaceBack) {
  Client first;
  Client second;
  start(first, 7);
  start(second, 8);
  channel_->refuse_held({ErrorCode::kUnavailable, "it ends"});
  ASSERT_TRUE(first.told && !*first.told);
  ASSERT_TRUE(second.told && !*second.told);
  EXPECT_EQ(second.told->error().outcome, dispatch::Outcome::kRejected);
  EXPECT_EQ(room_, (std::vector{false, true}));
}

}  // namespace
}  // namespace kvist::gateway::routing_channel_test
