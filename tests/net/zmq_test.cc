#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "kvist/net/zmq_publisher.h"
#include "kvist/net/zmq_receiver.h"
#include "kvist/net/zmtp_encoder.h"
#include "net/raw_socket.h"

namespace kvist::net::zmq_test {
namespace {

using testing::ElementsAre;
using testing::Pair;

/// Records what a subscriber's handlers were called with, and waits for conditions on it.
class Inbox {
 public:
  struct State {
    int connected = 0;
    std::vector<std::string> disconnected;
    int replay_ends = 0;
    std::vector<std::pair<std::uint64_t, std::string>> live;
    std::vector<std::pair<std::uint64_t, std::string>> replayed;
    std::vector<std::string> malformed;
  };

  ZmqSubscriberHandlers handlers() {
    ZmqSubscriberHandlers h;
    h.on_connected = [this] { change([](State& s) { ++s.connected; }); };
    h.on_disconnected = [this](std::string w) { change([&](State& s) { s.disconnected.push_back(std::move(w)); }); };
    h.on_live = [this](std::uint64_t n, std::string p) {
      change([&](State& s) { s.live.emplace_back(n, std::move(p)); });
    };
    h.on_replayed = [this](std::uint64_t n, std::string p) {
      change([&](State& s) { s.replayed.emplace_back(n, std::move(p)); });
    };
    h.on_replay_end = [this] { change([](State& s) { ++s.replay_ends; }); };
    h.on_malformed = [this](std::string w) { change([&](State& s) { s.malformed.push_back(std::move(w)); }); };
    return h;
  }

  template <class Condition>
  [[nodiscard]] bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(100), [&] { return condition(state_); });
  }
  State state() {
    const std::lock_guard lock(mutex_);
    return state_;
  }

 private:
  template <class Change>
  void change(Change change) {
    const std::lock_guard lock(mutex_);
    change(state_);
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_;
};

std::unique_ptr<ZmqPublisher> make_publisher(std::uint16_t port = 0, std::uint16_t replay_port = 0,
                                             std::uint32_t buffer = 100, std::string topic = "kv") {
  ZmqPublisherOptions options;
  options.endpoint = "tcp://127.0.0.1:" + std::to_string(port);
  options.replay_endpoint = "tcp://127.0.0.1:" + std::to_string(replay_port);
  options.topic = std::move(topic);
  options.buffer_messages = buffer;
  auto publisher = ZmqPublisher::bind(std::move(options));
  EXPECT_TRUE(publisher) << publisher.error().message;
  return std::move(*publisher);
}

std::unique_ptr<ZmqSubscriber> subscribe(const ZmqPublisher& publisher, Inbox& inbox, std::string topic = "kv",
                                         const std::shared_ptr<ZmqReceiver>& receiver = ZmqReceiver::create()) {
  ZmqSubscriberOptions options;
  options.endpoint = "tcp://127.0.0.1:" + std::to_string(publisher.port());
  options.replay_endpoint = "tcp://127.0.0.1:" + std::to_string(publisher.replay_port());
  options.topic = std::move(topic);
  auto subscriber = receiver->subscribe(options, inbox.handlers());
  EXPECT_TRUE(subscriber) << subscriber.error().message;
  return std::move(*subscriber);
}

/// Publishes until something arrives, because a PUB socket knows of a subscription only some time after the connection.
void publish_until_live(ZmqPublisher& publisher, Inbox& inbox) {
  while (!inbox.wait([](const auto& s) { return s.connected > 0; })) FAIL() << "no connection";
  for (int i = 0; i < 1000; ++i) {
    publisher.publish("warm-up");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (!inbox.state().live.empty()) return;
  }
  FAIL() << "no live message";
}

TEST(Zmq, DeliversLiveMessagesInOrderWithTheirNumbers) {
  const auto publisher = make_publisher();
  Inbox inbox;
  const auto subscriber = subscribe(*publisher, inbox);
  publish_until_live(*publisher, inbox);
  const std::string large(200'000, 'x');
  const std::uint64_t first = publisher->publish("a");
  EXPECT_EQ(publisher->publish(large), first + 1);
  EXPECT_EQ(publisher->publish(""), first + 2);
  ASSERT_TRUE(inbox.wait([&](const auto& s) { return !s.live.empty() && s.live.back().first == first + 2; }));
  const auto live = inbox.state().live;
  for (std::size_t i = 1; i < live.size(); ++i) EXPECT_EQ(live[i].first, live[i - 1].first + 1);
  EXPECT_EQ(live[live.size() - 3].second, "a");
  EXPECT_EQ(live[live.size() - 2].second, large);
  EXPECT_EQ(live[live.size() - 1].second, "");
}

TEST(Zmq, NumbersBeginAtZero) {
  const auto publisher = make_publisher();
  EXPECT_EQ(publisher->publish("a"), 0U);
  EXPECT_EQ(publisher->publish("b"), 1U);
}

TEST(Zmq, ReplaysFromTheNumberAskedForToTheEnd) {
  const auto publisher = make_publisher();
  for (int i = 0; i < 5; ++i) publisher->publish("m" + std::to_string(i));
  Inbox inbox;
  const auto subscriber = subscribe(*publisher, inbox);
  subscriber->request_replay(2);
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends == 1; }));
  EXPECT_THAT(inbox.state().replayed, ElementsAre(Pair(2, "m2"), Pair(3, "m3"), Pair(4, "m4")));
}

TEST(Zmq, AReplayFromBeyondTheLastNumberIsOnlyTheEnd) {
  const auto publisher = make_publisher();
  publisher->publish("m0");
  Inbox inbox;
  const auto subscriber = subscribe(*publisher, inbox);
  subscriber->request_replay(1);
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends == 1; }));
  EXPECT_TRUE(inbox.state().replayed.empty());
}

TEST(Zmq, ReplaysOnlyWhatTheBufferStillHolds) {
  const auto publisher = make_publisher(0, 0, 3);
  for (int i = 0; i < 10; ++i) publisher->publish("m" + std::to_string(i));
  Inbox inbox;
  const auto subscriber = subscribe(*publisher, inbox);
  subscriber->request_replay(0);
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends == 1; }));
  EXPECT_THAT(inbox.state().replayed, ElementsAre(Pair(7, "m7"), Pair(8, "m8"), Pair(9, "m9")));
}

/// Joins the payloads.
struct Joining final : ReplayCompaction {
  void take(const std::string& payload) override { all += payload; }
  [[nodiscard]] std::string message() const override { return "<" + all + ">"; }
  std::string all;
};

TEST(Zmq, ACompactionStandsForWhatTheBufferNoLongerHolds) {
  ZmqPublisherOptions options{.endpoint = "tcp://127.0.0.1:0", .replay_endpoint = "tcp://127.0.0.1:0", .topic = "kv"};
  options.buffer_messages = 3;
  options.compaction = std::make_unique<Joining>();
  const auto publisher = std::move(*ZmqPublisher::bind(std::move(options)));
  Inbox inbox;
  const auto subscriber = subscribe(*publisher, inbox);
  int ends = 0;
  const auto replay = [&](std::uint64_t from) {
    const std::size_t before = inbox.state().replayed.size();
    subscriber->request_replay(from);
    EXPECT_TRUE(inbox.wait([&, wanted = ++ends](const auto& s) { return s.replay_ends == wanted; }));
    const auto all = inbox.state().replayed;
    return std::vector(all.begin() + static_cast<std::ptrdiff_t>(before), all.end());
  };
  const auto publish = [&](char from, char to) {
    for (char c = from; c <= to; ++c) publisher->publish(std::string(1, c));
  };
  publish('a', 'c');
  EXPECT_THAT(replay(0), ElementsAre(Pair(0, "a"), Pair(1, "b"), Pair(2, "c")));
  publish('d', 'd');
  EXPECT_THAT(replay(0), ElementsAre(Pair(1, "<ab>"), Pair(2, "c"), Pair(3, "d")));
  EXPECT_THAT(replay(0), ElementsAre(Pair(1, "<ab>"), Pair(2, "c"), Pair(3, "d")));
  EXPECT_THAT(replay(1), ElementsAre(Pair(1, "b"), Pair(2, "c"), Pair(3, "d")));
  publish('e', 'g');
  EXPECT_THAT(replay(1), ElementsAre(Pair(4, "<abcde>"), Pair(5, "f"), Pair(6, "g")));
  // So many that the replay thread takes them in pieces, before anybody asks.
  for (int i = 0; i < 2'000; ++i) publisher->publish("x");
  const auto last = replay(0);
  ASSERT_EQ(last.size(), 3U);
  EXPECT_EQ(last[0].first, 2'004U);
  EXPECT_EQ(last[0].second, "<abcdefg" + std::string(1'998, 'x') + ">");
}

TEST(Zmq, ReplaysAWholeLargeBuffer) {
  const auto publisher = make_publisher(0, 0, 10'000);
  for (int i = 0; i < 12'000; ++i) publisher->publish(std::to_string(i));
  Inbox inbox;
  const auto subscriber = subscribe(*publisher, inbox);
  subscriber->request_replay(0);
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends == 1; }));
  const auto replayed = inbox.state().replayed;
  ASSERT_EQ(replayed.size(), 10'000U);
  for (std::size_t i = 0; i < replayed.size(); ++i) {
    ASSERT_EQ(replayed[i].first, 2'000 + i);
    ASSERT_EQ(replayed[i].second, std::to_string(2'000 + i));
  }
}

TEST(Zmq, AnswersReplaysWhilePublishing) {
  const auto publisher = make_publisher(0, 0, 50'000);
  Inbox inbox;
  const auto subscriber = subscribe(*publisher, inbox);
  publish_until_live(*publisher, inbox);
  subscriber->request_replay(0);
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends == 1; }));  // now there is a connection
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 100; ++i) publisher->publish("m");
    subscriber->request_replay(0);
  }
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends == 21; }));
  const auto replayed = inbox.state().replayed;
  for (std::size_t i = 1; i < replayed.size(); ++i) {
    // The numbers of each replay have no gap, and begin with 0.
    if (replayed[i].first != 0) {
      ASSERT_EQ(replayed[i].first, replayed[i - 1].first + 1);
    }
  }
}

TEST(Zmq, ReportsTheConnectionAgainWhenThePublisherCameBack) {
  auto publisher = make_publisher();
  const std::uint16_t port = publisher->port();
  const std::uint16_t replay_port = publisher->replay_port();
  publisher->publish("old");
  Inbox inbox;
  const auto subscriber = subscribe(*publisher, inbox);
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.connected == 1; }));
  publisher.reset();
  publisher = make_publisher(port, replay_port);
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.connected == 2; }));
  EXPECT_EQ(publisher->publish("new"), 0U);
  subscriber->request_replay(0);
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends == 1; }));
  EXPECT_THAT(inbox.state().replayed, ElementsAre(Pair(0, "new")));
}

// Each would be answered with all that is buffered, though only the last is waited for.
TEST(Zmq, OfReplayRequestsThatWaitForThePortOnlyTheLastIsSent) {
  auto publisher = make_publisher();
  const std::uint16_t port = publisher->port();
  const std::uint16_t replay_port = publisher->replay_port();
  Inbox inbox;
  const auto subscriber = subscribe(*publisher, inbox);
  subscriber->request_replay(0);
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends == 1; }));
  publisher.reset();
  ASSERT_TRUE(inbox.wait([](const auto& s) { return !s.disconnected.empty(); }));
  for (std::uint64_t from = 0; from < 10; ++from) subscriber->request_replay(from % 3);
  subscriber->request_replay(3);
  publisher = make_publisher(port, replay_port);
  for (int i = 0; i < 5; ++i) publisher->publish("m" + std::to_string(i));
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends >= 2; }));
  subscriber->request_replay(4);  // comes behind all others
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends >= 3; }));
  EXPECT_EQ(inbox.state().replay_ends, 3);
  for (const auto& [number, payload] : inbox.state().replayed) EXPECT_GE(number, 3U) << "of another request";
}

TEST(Zmq, TopicsSelectByPrefix) {
  const auto publisher = make_publisher(0, 0, 100, "kv@host@model");
  Inbox inbox;
  const auto subscriber = subscribe(*publisher, inbox, "kv@");
  publish_until_live(*publisher, inbox);
  EXPECT_TRUE(inbox.state().malformed.empty());
}

TEST(Zmq, ABoundSubscriberTakesAConnectingPublisherAndReportsWhatIsMalformed) {
  const std::string port = std::to_string(make_publisher()->port());  // its publisher is gone, so the port is free
  Inbox inbox;
  auto subscriber = ZmqReceiver::create()->subscribe(
      {.endpoint = "tcp://*:" + port, .replay_endpoint = "", .topic = ""}, inbox.handlers());
  ASSERT_TRUE(subscriber) << subscriber.error().message;
  (*subscriber)->request_replay(0);  // does nothing, because there is no replay channel
  zmq::context_t context;
  zmq::socket_t publisher(context, zmq::socket_type::pub);
  publisher.set(zmq::sockopt::linger, 0);
  publisher.connect("tcp://127.0.0.1:" + port);
  const std::array<unsigned char, 8> number{0, 0, 0, 0, 0, 0, 1, 2};
  const auto both = [](const auto& s) { return !s.live.empty() && !s.malformed.empty(); };
  for (int i = 0; i < 1000 && !both(inbox.state()); ++i) {
    publisher.send(zmq::buffer(std::string_view("topic")), zmq::send_flags::sndmore);
    publisher.send(zmq::buffer(number), zmq::send_flags::sndmore);
    publisher.send(zmq::buffer(std::string_view("payload")), zmq::send_flags::none);
    publisher.send(zmq::buffer(std::string_view("alone")), zmq::send_flags::none);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(inbox.wait(both));
  EXPECT_THAT(inbox.state().live.front(), Pair(0x102, "payload"));
}

TEST(Zmq, TheOlderReplayFormIsReadToo) {
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::linger, 0);
  router.bind("tcp://127.0.0.1:*");
  Inbox inbox;
  auto subscriber = ZmqReceiver::create()->subscribe(
      {.endpoint = "tcp://127.0.0.1:1", .replay_endpoint = router.get(zmq::sockopt::last_endpoint), .topic = ""},
      inbox.handlers());
  ASSERT_TRUE(subscriber) << subscriber.error().message;
  (*subscriber)->request_replay(7);
  zmq::message_t identity;
  zmq::message_t empty;
  zmq::message_t number;
  ASSERT_TRUE(router.recv(identity));
  ASSERT_TRUE(router.recv(empty));
  ASSERT_TRUE(router.recv(number));
  EXPECT_EQ(empty.size(), 0U);
  EXPECT_EQ(number.to_string(), std::string("\0\0\0\0\0\0\0\7", 8));
  const auto reply = [&](std::string_view sequence, std::string_view payload) {
    router.send(zmq::buffer(identity.data(), identity.size()), zmq::send_flags::sndmore);
    router.send(zmq::message_t(), zmq::send_flags::sndmore);
    router.send(zmq::buffer(sequence), zmq::send_flags::sndmore);
    router.send(zmq::buffer(payload), zmq::send_flags::none);
  };
  reply(std::string_view("\0\0\0\0\0\0\0\7", 8), "seven");
  reply("short", "?");
  reply("\xff\xff\xff\xff\xff\xff\xff\xff", "");
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends == 1; }));
  EXPECT_THAT(inbox.state().replayed, ElementsAre(Pair(7, "seven")));
  EXPECT_EQ(inbox.state().malformed.size(), 1U);
}

/// A publisher whose bytes are the test's.
class RawPublisher {
 public:
  explicit RawPublisher(Inbox& inbox) {
    auto made = ZmqReceiver::create()->subscribe(
        {.endpoint = "tcp://127.0.0.1:" + std::to_string(listener_.port()), .replay_endpoint = "", .topic = "kv"},
        inbox.handlers());
    EXPECT_TRUE(made) << made.error().message;
    subscriber_ = std::move(*made);
  }

  /// The next connection of the subscriber.
  [[nodiscard]] RawSocket accept() const { return listener_.accept(); }
  /// The same, after the handshake, and with the subscription read.
  [[nodiscard]] RawSocket shake_hands() const {
    RawSocket peer = accept();
    EXPECT_TRUE(peer.send(zmtp_handshake("PUB")));
    EXPECT_EQ(peer.read_bytes(zmtp_handshake("SUB").size()), zmtp_handshake("SUB"));
    EXPECT_EQ(peer.read_bytes(zmtp_subscribe("kv").size()), zmtp_subscribe("kv"));
    return peer;
  }
  /// What a subscriber must still be able to read after whatever came before.
  void expect_a_message_to_arrive(Inbox& inbox) const {
    const RawSocket peer = shake_hands();
    ASSERT_TRUE(peer.send(zmtp_message({"kv", std::string_view("\0\0\0\0\0\0\0\7", 8), "seven"})));
    ASSERT_TRUE(inbox.wait([](const auto& s) { return !s.live.empty(); }));
    EXPECT_THAT(inbox.state().live, ElementsAre(Pair(7, "seven")));
  }

 private:
  RawListener listener_;
  std::unique_ptr<ZmqSubscriber> subscriber_;
};

TEST(Zmq, RubbishInsteadOfAHandshakeEndsOnlyItsConnection) {
  Inbox inbox;
  const RawPublisher publisher(inbox);
  for (const std::string& rubbish : {std::string(100, '\xff'), std::string("HTTP/1.1 400 Bad Request\r\n\r\n")}) {
    RawSocket peer = publisher.accept();
    ASSERT_TRUE(peer.send(rubbish));
    peer.read_to_end();
  }
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.malformed.size() == 2; }));
  EXPECT_TRUE(inbox.state().disconnected.empty()) << "it was never connected";
  publisher.expect_a_message_to_arrive(inbox);
}

TEST(Zmq, RubbishInTheStreamEndsOnlyItsConnection) {
  Inbox inbox;
  const RawPublisher publisher(inbox);
  {
    RawSocket peer = publisher.shake_hands();
    ASSERT_TRUE(peer.send(std::string(100, '\xff')));
    peer.read_to_end();
  }
  publisher.expect_a_message_to_arrive(inbox);
  EXPECT_THAT(inbox.state().malformed, ElementsAre(testing::HasSubstr("flags 0xff")));
  EXPECT_THAT(inbox.state().disconnected.front(), testing::HasSubstr("flags 0xff"));
}

TEST(Zmq, AMessageThatIsTooLargeEndsOnlyItsConnection) {
  Inbox inbox;
  const RawPublisher publisher(inbox);
  {
    RawSocket peer = publisher.shake_hands();
    const std::string size("\2\0\0\0\0\4\x10\0\0", 9);  // 65 MiB follow
    ASSERT_TRUE(peer.send(size));
    peer.read_to_end();
  }
  publisher.expect_a_message_to_arrive(inbox);
  EXPECT_THAT(inbox.state().malformed, ElementsAre(testing::HasSubstr("more than 67108864 bytes")));
}

TEST(Zmq, AMessageThatNeverEndsIsCutShort) {
  Inbox inbox;
  const RawPublisher publisher(inbox);
  {
    RawSocket peer = publisher.shake_hands();
    std::string frame = zmtp_message({std::string(1U << 20, 'x'), ""});
    frame.resize(frame.size() - 2);  // the last frame
    int sent = 0;
    while (sent < 3'000 && peer.send(frame)) ++sent;
    EXPECT_LT(sent, 100);
  }
  publisher.expect_a_message_to_arrive(inbox);
  EXPECT_THAT(inbox.state().malformed, ElementsAre(testing::HasSubstr("more than 16 frames")));
}

TEST(Zmq, APublisherThatFallsSilentIsNoticed) {
  Inbox inbox;
  const RawPublisher publisher(inbox);
  RawSocket peer = publisher.shake_hands();
  EXPECT_EQ(peer.read_bytes(zmtp_ping().size()), zmtp_ping());
  ASSERT_TRUE(inbox.wait([](const auto& s) { return !s.disconnected.empty(); }));
  EXPECT_EQ(inbox.state().disconnected.front(), "no sign of life for 3 s");
  publisher.expect_a_message_to_arrive(inbox);
}

TEST(Zmq, APingIsAnswered) {
  Inbox inbox;
  const RawPublisher publisher(inbox);
  RawSocket peer = publisher.shake_hands();
  ASSERT_TRUE(peer.send(std::string_view("\4\x0a\4PING\0\1abc", 12)));
  const std::string pong = zmtp_pong("abc");
  EXPECT_TRUE(peer.read_until(pong).ends_with(pong));
}

TEST(Zmq, OneReceiverKeepsManySubscriptionsApart) {
  constexpr std::size_t kCount = 40;
  const auto receiver = ZmqReceiver::create();
  std::vector<std::unique_ptr<ZmqPublisher>> publishers;
  std::vector<Inbox> inboxes(kCount);
  std::vector<std::unique_ptr<ZmqSubscriber>> subscribers;
  for (std::size_t i = 0; i < kCount; ++i) {
    publishers.push_back(make_publisher());
    publishers[i]->publish("of " + std::to_string(i));
    subscribers.push_back(subscribe(*publishers[i], inboxes[i], "kv", receiver));
  }
  // A subscription that ends does not disturb the others.
  for (std::size_t i = 0; i < kCount; i += 2) subscribers[i].reset();
  for (std::size_t i = 1; i < kCount; i += 2) {
    publish_until_live(*publishers[i], inboxes[i]);
    subscribers[i]->request_replay(0);
    ASSERT_TRUE(inboxes[i].wait([](const auto& s) { return s.replay_ends == 1; }));
    EXPECT_THAT(inboxes[i].state().replayed.front(), Pair(0, "of " + std::to_string(i)));
  }
}

TEST(Zmq, ASubscriptionWithoutAPublisherEndsAtOnce) {
  Inbox inbox;
  auto subscriber = ZmqReceiver::create()->subscribe(
      {.endpoint = "tcp://127.0.0.1:1", .replay_endpoint = "tcp://127.0.0.1:1", .topic = ""}, inbox.handlers());
  ASSERT_TRUE(subscriber) << subscriber.error().message;
  (*subscriber)->request_replay(0);  // is lost, because there is no publisher
  subscriber->reset();
  EXPECT_EQ(inbox.state().connected, 0);
}

TEST(Zmq, AnEndpointThatIsNoneIsAnErrorThatNamesIt) {
  const auto made = ZmqReceiver::create()->subscribe({.endpoint = "nonsense", .replay_endpoint = "", .topic = ""}, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(made.error().message, testing::HasSubstr("\"nonsense\" is no endpoint"));
}

TEST(Zmq, TooFewDescriptorsAreAnErrorThatSaysHowManyItTakes) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto receiver = ZmqReceiver::create();
  const rlimit few{.rlim_cur = 65, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto made = receiver->subscribe({.endpoint = "tcp://127.0.0.1:1", .replay_endpoint = "", .topic = ""}, {});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(made.error().message, testing::HasSubstr("take 2 file descriptors, and the process may have 65"));
}

TEST(Zmq, APortInUseIsAnErrorThatNamesIt) {
  const auto publisher = make_publisher();
  ZmqPublisherOptions options;
  options.endpoint = "tcp://127.0.0.1:" + std::to_string(publisher->port());
  const auto second = ZmqPublisher::bind(std::move(options));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message, testing::HasSubstr(std::to_string(publisher->port())));
}

TEST(Zmq, RubbishOnTheReplayPortDoesNotDisturb) {
  const auto publisher = make_publisher();
  publisher->publish("m0");
  zmq::context_t context;
  zmq::socket_t rubbish(context, zmq::socket_type::dealer);
  rubbish.set(zmq::sockopt::linger, 0);
  rubbish.connect("tcp://127.0.0.1:" + std::to_string(publisher->replay_port()));
  rubbish.send(zmq::buffer(std::string_view("one frame")), zmq::send_flags::none);
  for (int i = 0; i < 10; ++i) rubbish.send(zmq::buffer(std::string_view("many")), zmq::send_flags::sndmore);
  rubbish.send(zmq::message_t(), zmq::send_flags::none);
  Inbox inbox;
  const auto subscriber = subscribe(*publisher, inbox);
  subscriber->request_replay(0);
  ASSERT_TRUE(inbox.wait([](const auto& s) { return s.replay_ends == 1; }));
  EXPECT_THAT(inbox.state().replayed, ElementsAre(Pair(0, "m0")));
}

TEST(Zmq, APublisherTakesNoLargeMessages) {
  const auto publisher = make_publisher();
  zmq::context_t context;
  zmq::socket_t sender(context, zmq::socket_type::dealer);
  sender.set(zmq::sockopt::linger, 0);
  zmq::socket_t monitor(context, zmq::socket_type::pair);
  monitor.set(zmq::sockopt::linger, 0);
  monitor.set(zmq::sockopt::rcvtimeo, 100'000);
  ASSERT_EQ(zmq_socket_monitor(sender.handle(), "inproc://sender", ZMQ_EVENT_DISCONNECTED), 0);
  monitor.connect("inproc://sender");
  sender.connect("tcp://127.0.0.1:" + std::to_string(publisher->replay_port()));
  sender.send(zmq::message_t(1U << 20), zmq::send_flags::none);
  zmq::message_t event;
  EXPECT_TRUE(monitor.recv(event).has_value()) << "the connection was kept";
  zmq_socket_monitor(sender.handle(), nullptr, 0);
}

}  // namespace
}  // namespace kvist::net::zmq_test
