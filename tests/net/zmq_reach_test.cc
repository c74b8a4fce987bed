// What is told of a publisher that is not where it is looked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kvist/net/port_probe.h"
#include "kvist/net/zmq_publisher.h"
#include "kvist/net/zmq_receiver.h"

namespace kvist::net::zmq_reach_test {
namespace {

using testing::HasSubstr;

constexpr auto kLong = std::chrono::seconds(100);

std::string at(std::uint16_t port) {
  return "tcp://127.0.0.1:" + std::to_string(port);
}

std::unique_ptr<ZmqPublisher> make_publisher() {
  auto publisher = ZmqPublisher::bind({.endpoint = at(0), .replay_endpoint = at(0), .topic = ""});
  EXPECT_TRUE(publisher) << publisher.error().message;
  return std::move(*publisher);
}

/// The reasons of the first attempts at an endpoint.
std::vector<std::string> first_failures(const std::string& endpoint, std::size_t count) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> failures;
  ZmqSubscriberHandlers handlers;
  handlers.on_unreachable = [&](std::string why) {
    const std::lock_guard lock(mutex);
    failures.push_back(std::move(why));
    changed.notify_all();
  };
  const auto subscriber =
      ZmqReceiver::create()->subscribe({.endpoint = endpoint, .replay_endpoint = "", .topic = ""}, std::move(handlers));
  EXPECT_TRUE(subscriber) << subscriber.error().message;
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, kLong, [&] { return failures.size() >= count; }));
  return failures;
}

TEST(ZmqReach, EachAttemptThatFailsIsTold) {
  const auto failures = first_failures(at(1), 2);
  ASSERT_GE(failures.size(), 2U);
  EXPECT_EQ(failures[0], "Connection refused");
  EXPECT_EQ(failures[1], "Connection refused");
}

TEST(ZmqReach, TheReplaysPortIsNoPublishers) {
  const auto publisher = make_publisher();
  EXPECT_THAT(first_failures(at(publisher->replay_port()), 1).front(), HasSubstr("in the handshake"));
}

TEST(ZmqReach, AProbeKnowsAPublisherFromItsReplay) {
  const auto publisher = make_publisher();
  EXPECT_TRUE(probe_zmq(at(publisher->port()), {"PUB", "XPUB"}, kLong));
  EXPECT_TRUE(probe_zmq(at(publisher->replay_port()), {"ROUTER"}, kLong));
  EXPECT_THAT(probe_zmq(at(publisher->replay_port()), {"PUB", "XPUB"}, kLong).error().message,
              HasSubstr("not of the type PUB or XPUB"));
  EXPECT_THAT(probe_zmq(at(publisher->port()), {"ROUTER"}, kLong).error().message, HasSubstr("not of the type ROUTER"));
  EXPECT_FALSE(probe_zmq(at(1), {"PUB"}, kLong));
}

}  // namespace
}  // namespace kvist::net::zmq_reach_test
