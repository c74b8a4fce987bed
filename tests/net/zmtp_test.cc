// ZeroMQ's protocol as bytes: what a peer may send, in whatever pieces, and what it may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/net/heartbeat.h"
#include "kvist/net/reconnect_delay.h"
#include "kvist/net/zmtp_decoder.h"
#include "kvist/net/zmtp_encoder.h"
#include "kvist/net/zmtp_endpoint.h"

namespace kvist::net::zmtp_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Recorder : ZmtpDecoder::Sink {
  void on_handshake(bool beats) override {
    ++handshakes;
    heartbeats = beats;
  }
  void on_message(ZmtpMessage& frames) override { messages.push_back(std::move(frames)); }
  void on_ping(std::string_view context) override { pings.emplace_back(context); }

  int handshakes = 0;
  bool heartbeats = false;
  std::vector<ZmtpMessage> messages;
  std::vector<std::string> pings;
};

ZmtpDecoder subscriber(ZmtpLimits limits = {}) {
  return ZmtpDecoder({"PUB", "XPUB"}, limits);
}

/// The error of a peer that sends these bytes after a good handshake, or at once; empty: there is none.
std::string error_of(std::string_view bytes, bool shaken = true, ZmtpLimits limits = {}) {
  ZmtpDecoder decoder = subscriber(limits);
  Recorder recorder;
  if (shaken) {
    EXPECT_TRUE(decoder.feed(zmtp_handshake("PUB"), recorder));
  }
  const auto fed = decoder.feed(bytes, recorder);
  return fed ? "" : fed.error().message;
}

TEST(Zmtp, ReadsAHandshakeAndMessages) {
  ZmtpDecoder decoder = subscriber();
  Recorder recorder;
  const std::string large(70'000, 'x');
  ASSERT_TRUE(
      decoder.feed(zmtp_handshake("XPUB") + zmtp_message({"kv", "12345678", large}) + zmtp_message({""}), recorder));
  EXPECT_EQ(recorder.handshakes, 1);
  EXPECT_TRUE(recorder.heartbeats);
  ASSERT_EQ(recorder.messages.size(), 2U);
  EXPECT_THAT(recorder.messages[0], ElementsAre("kv", "12345678", large));
  EXPECT_THAT(recorder.messages[1], ElementsAre(""));
  EXPECT_EQ(decoder.kept_bytes(), 0U);
}

TEST(Zmtp, APeerOfVersion30HasNoHeartbeats) {
  std::string hello = zmtp_handshake("PUB");
  hello[11] = '\0';
  ZmtpDecoder decoder = subscriber();
  Recorder recorder;
  ASSERT_TRUE(decoder.feed(hello, recorder));
  EXPECT_EQ(recorder.handshakes, 1);
  EXPECT_FALSE(recorder.heartbeats);
}

TEST(Zmtp, APingIsPassedOnWithItsContextAndOtherCommandsAreIgnored) {
  ZmtpDecoder decoder = subscriber();
  Recorder recorder;
  ASSERT_TRUE(decoder.feed(zmtp_handshake("PUB"), recorder));
  ASSERT_TRUE(decoder.feed(std::string_view("\4\x0a\4PING\0\1abc", 12), recorder));
  ASSERT_TRUE(decoder.feed(zmtp_ping() + zmtp_pong("abc"), recorder));
  ASSERT_TRUE(decoder.feed(std::string_view("\4\6\5LATER", 8), recorder));
  EXPECT_THAT(recorder.pings, ElementsAre("abc", ""));
}

TEST(Zmtp, BytesInAnyPiecesAreTheSameMessages) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::string bytes = zmtp_handshake("PUB");
    std::vector<ZmtpMessage> sent;
    for (int i = 0; i < 20; ++i) {
      // Around 255 bytes the size of a frame takes 8 bytes instead of 1.
      const auto text = [&] {
        return std::string(random() % (random() % 4 == 0 ? 600 : 20), static_cast<char>(random()));
      };
      ZmtpMessage message;
      if (random() % 3 == 0) {
        message = {text()};
        bytes += zmtp_message({message[0]});
      } else {
        message = {text(), text(), text()};
        bytes += zmtp_message({message[0], message[1], message[2]});
      }
      sent.push_back(std::move(message));
      if (random() % 5 == 0) bytes += zmtp_ping();
    }
    ZmtpDecoder decoder = subscriber();
    Recorder recorder;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = std::min<std::size_t>(bytes.size() - at, 1 + random() % (seed % 2 == 0 ? 3 : 400));
      ASSERT_TRUE(decoder.feed(std::string_view(bytes).substr(at, size), recorder));
      at += size;
    }
    EXPECT_EQ(recorder.messages, sent);
    EXPECT_EQ(decoder.kept_bytes(), 0U);
  }
}

TEST(Zmtp, WhatIsNoGreetingIsAnErrorAsSoonAsItShows) {
  EXPECT_THAT(error_of("H", false), HasSubstr("does not speak ZeroMQ's protocol"));
  EXPECT_THAT(error_of(std::string(100, '\xff'), false), HasSubstr("NULL"));
  EXPECT_THAT(error_of(std::string("\xff\0\0\0\0\0\0\0\1\x7e", 10), false), HasSubstr("does not speak"));
  EXPECT_THAT(error_of(std::string("\xff\0\0\0\0\0\0\0\1\x7f\1", 11), false), HasSubstr("version 1"));
  std::string encrypted = zmtp_handshake("PUB");
  encrypted.replace(12, 5, "CURVE");
  EXPECT_THAT(error_of(encrypted, false), HasSubstr("CURVE"));
}

TEST(Zmtp, AHandshakeThatDoesNotFitIsAnError) {
  EXPECT_THAT(error_of(zmtp_handshake("ROUTER"), false), HasSubstr("not of the type PUB or XPUB"));
  const std::string greeting = zmtp_handshake("PUB").substr(0, 64);
  EXPECT_THAT(error_of(greeting + std::string("\4\7\5ERROR\0", 9), false), HasSubstr("refused"));
  EXPECT_THAT(error_of(greeting + std::string("\4\x0b\5READY\4Type\x7f", 13), false), HasSubstr("malformed"));
  EXPECT_THAT(error_of(greeting + std::string("\4\6\5LATER", 8), false), HasSubstr("other than READY"));
  EXPECT_THAT(error_of(greeting + zmtp_message({"early"}), false), HasSubstr("before the end of the handshake"));
}

TEST(Zmtp, ImpossibleFlagsAreAnError) {
  EXPECT_THAT(error_of("\x08x"), HasSubstr("0x08"));
  EXPECT_THAT(error_of(std::string("\x05\0", 2)), HasSubstr("0x05"));  // a command has no second frame
  EXPECT_THAT(error_of(std::string("\4\0", 2)), HasSubstr("without a name"));
}

TEST(Zmtp, LimitsHoldBeforeBytesAreKept) {
  const ZmtpLimits limits{.message_bytes = 1000, .frames = 3, .command_bytes = 100};
  EXPECT_EQ(error_of(zmtp_message({std::string(1000, 'x')}), true, limits), "");
  EXPECT_THAT(error_of(zmtp_message({std::string(1001, 'x')}).substr(0, 9), true, limits),
              HasSubstr("more than 1000 bytes"));
  EXPECT_THAT(error_of(std::string("\2\xff\xff\xff\xff\xff\xff\xff\xff", 9), true, limits),
              HasSubstr("more than 1000 bytes"));
  // Over all frames of a message, finished or not.
  const std::string half = zmtp_message({std::string(600, 'x'), ""}).substr(0, 609);
  EXPECT_THAT(error_of(half + half, true, limits), HasSubstr("more than 1000 bytes"));
  EXPECT_EQ(error_of(zmtp_message({"", "", ""}), true, limits), "");
  EXPECT_THAT(error_of(zmtp_message({"", "", "", ""}), true, limits), HasSubstr("more than 3 frames"));
  EXPECT_THAT(error_of(std::string("\4\x65", 2), true, limits), HasSubstr("a command of 101 bytes"));
}

TEST(Zmtp, MessagesDoNotAddUp) {
  ZmtpDecoder decoder = subscriber({.message_bytes = 1000, .frames = 3});
  Recorder recorder;
  ASSERT_TRUE(decoder.feed(zmtp_handshake("PUB"), recorder));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(decoder.feed(zmtp_message({"a", std::string(900, 'x')}), recorder));
  EXPECT_EQ(recorder.messages.size(), 100U);
}

TEST(ZmtpEndpoint, ReadsEveryForm) {
  const auto name = parse_zmtp_endpoint("tcp://worker-0.svc:5557");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->host, "worker-0.svc");
  EXPECT_EQ(name->port, 5557);
  EXPECT_FALSE(name->listens);
  const auto six = parse_zmtp_endpoint("tcp://[::1]:1");
  ASSERT_TRUE(six);
  EXPECT_EQ(six->host, "::1");
  const auto listens = parse_zmtp_endpoint("tcp://*:65535");
  ASSERT_TRUE(listens);
  EXPECT_TRUE(listens->listens);
  EXPECT_EQ(listens->port, 65535);
  const auto path = parse_zmtp_endpoint("ipc:///run/worker");
  ASSERT_TRUE(path);
  EXPECT_EQ(path->path, "/run/worker");
}

TEST(ZmtpEndpoint, AnythingElseIsAnErrorThatSaysWhatIsRight) {
  for (const char* const text :
       {"", "tcp://", "tcp://host", "tcp://host:", "tcp://host:0", "tcp://host:65536", "tcp://host:1x", "tcp://:1",
        "tcp://a b:1", "tcp://[::1:1", "ipc://", "udp://host:1", "host:1"}) {
    const auto read = parse_zmtp_endpoint(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message, HasSubstr(text));
    EXPECT_THAT(read.error().message, HasSubstr("Write tcp://host:port"));
  }
  EXPECT_FALSE(parse_zmtp_endpoint("ipc://" + std::string(108, 'x')));
}

TEST(ReconnectDelay, GrowsToItsBoundsAndBeginsAnewAfterAConnectionThatStood) {
  ReconnectDelay delay(1);
  const auto about = [](Duration is, Duration most) { return is <= most && is > most * 4 / 5 - Duration(1); };
  using Ms = std::chrono::milliseconds;
  for (const int ms : {100, 200, 400, 800, 1000, 1000}) EXPECT_TRUE(about(delay.next({}, false), Ms(ms))) << ms;
  for (const int ms : {2000, 4000, 8000, 10'000, 10'000}) EXPECT_TRUE(about(delay.next({}, true), Ms(ms))) << ms;
  // A peer that always breaks right after the handshake is not asked more often for it.
  EXPECT_TRUE(about(delay.next(Ms(50), true), Ms(10'000)));
  EXPECT_TRUE(about(delay.next(Ms(60'000), true), Ms(100)));
}

TEST(Heartbeat, APeerThatAnswersIsKeptAndASilentOneIsGivenUp) {
  using std::chrono::seconds;
  using Act = Heartbeat::Act;
  TimePoint now;
  Heartbeat heartbeat(now);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(heartbeat.act(now), Act::kNothing);
    now += seconds(1);
    EXPECT_EQ(heartbeat.act(now), Act::kAsk);
    heartbeat.on_sign(now);
  }
  EXPECT_EQ(heartbeat.act(now + seconds(1)), Act::kAsk);
  EXPECT_EQ(heartbeat.act(now + seconds(2)), Act::kAsk);
  EXPECT_EQ(heartbeat.act(now + seconds(3)), Act::kGiveUp);
}

TEST(Heartbeat, AProcessThatStoodStillAsksBeforeItGivesUp) {
  using std::chrono::seconds;
  using Act = Heartbeat::Act;
  const TimePoint start;
  Heartbeat heartbeat(start);
  EXPECT_EQ(heartbeat.act(start + seconds(60)), Act::kAsk);
  EXPECT_EQ(heartbeat.act(start + seconds(61)), Act::kAsk);
  EXPECT_EQ(heartbeat.act(start + seconds(62)), Act::kGiveUp);
}

}  // namespace
}  // namespace kvist::net::zmtp_test
