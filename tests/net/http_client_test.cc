#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "net/http_client_fixture.h"

namespace kvist::net::http_client_test {
namespace {

using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(HttpClientTest, SendsARequestAndReportsTheAnswer) {
  Seen seen;
  HttpRequest request = post("hello");
  request.target = "/v1/x?y=z";
  request.headers.add("X-A", "b");
  request.headers.add("Content-Length", "77");
  start(seen, std::move(request));
  RawSocket socket = peer_.accept();
  EXPECT_EQ(socket.read_until("hello"), "POST /v1/x?y=z HTTP/1.1\r\nX-A: b\r\nHost: 127.0.0.1:" +
                                            std::to_string(peer_.port()) + "\r\nContent-Length: 5\r\n\r\nhello");
  ASSERT_TRUE(socket.send("HTTP/1.1 201 Created\r\nX-Worker: w1\r\nContent-Length: 3\r\n\r\nyes"));
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.status, 201);
  EXPECT_EQ(seen.headers.find("x-worker"), "w1");
  EXPECT_EQ(seen.body, "yes");
  EXPECT_EQ(seen.heads, 1);
  EXPECT_EQ(seen.ends, 1);
  EXPECT_EQ(seen.errors, 0);
  EXPECT_LE(seen.times.started, seen.times.sent);
  EXPECT_LE(seen.times.sent, seen.times.first_byte);
}

TEST_F(HttpClientTest, SettingsOfAServerCanChangeAndItsIdleConnectionsAreNotUsedThen) {
  const std::vector<std::string> keys = {"", "k1", ""};
  for (const std::string& key : keys) {
    thread_.run([&] { client_->set_server(peer_.url(), {.bearer_key = key}); });
    Seen seen;
    start(seen, get());
    RawSocket socket = peer_.accept();
    const std::string request = socket.read_until("\r\n\r\n");
    EXPECT_EQ(request.contains("Authorization: Bearer k1\r\n"), !key.empty()) << request;
    EXPECT_EQ(request.contains("Authorization"), !key.empty());
    ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    ASSERT_TRUE(wait_over(seen));
    thread_.run([&] { client_->set_server(peer_.url(), {}); });
    EXPECT_EQ(socket.read_until("\n"), "") << "it is closed";
  }
}

TEST_F(HttpClientTest, HandsPiecesOnAsTheyArrive) {
  Seen seen;
  start(seen, get());
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
  ASSERT_TRUE(thread_.wait([&] { return seen.heads == 1; }));
  std::string expected;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(socket.send("5\r\nabcd" + std::to_string(i) + "\r\n"));
    expected += "abcd" + std::to_string(i);
    ASSERT_TRUE(thread_.wait([&] { return seen.body == expected; }));
  }
  EXPECT_EQ(thread_.run([&] { return seen.ends; }), 0);
  ASSERT_TRUE(socket.send("0\r\n\r\n"));
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.ends, 1);
  EXPECT_EQ(seen.pieces, 10);
}

TEST_F(HttpClientTest, ReadsAnAnswerThatComesByteByByte) {
  Seen seen;
  start(seen, get());
  RawSocket socket = accept_request();
  for (const char c : std::string("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "3\r\nabc\r\n00B;x=y\r\n0123456789\n\r\n0\r\nT: x\r\n\r\n")) {
    ASSERT_TRUE(socket.send(std::string_view(&c, 1)));
  }
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.error.message, "");
  EXPECT_EQ(seen.status, 200);
  EXPECT_EQ(seen.body, "abc0123456789\n");
}

TEST_F(HttpClientTest, GivesUpOnInterimAnswersWithoutEnd) {
  Seen seen;
  start(seen, get());
  RawSocket socket = accept_request();
  for (int i = 0; i < 17; ++i) ASSERT_TRUE(socket.send("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"));
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.errors, 1);
  EXPECT_EQ(seen.error.code, ErrorCode::kCorrupt);
  EXPECT_EQ(seen.heads, 0);
  Seen few;
  start(few, get());
  RawSocket other = accept_request();
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(other.send("HTTP/1.1 102 Processing\r\n\r\n"));
  ASSERT_TRUE(other.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"));
  ASSERT_TRUE(wait_over(few));
  EXPECT_EQ(few.body, "1");
}

TEST_F(HttpClientTest, ReusesTheConnectionUsedLast) {
  std::vector<Seen> seen(2);
  start(seen[0], get());
  RawSocket first = accept_request();
  start(seen[1], get());
  RawSocket second = accept_request();
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n";
  ASSERT_TRUE(first.send(answer + "1"));
  ASSERT_TRUE(wait_over(seen[0]));
  ASSERT_TRUE(second.send(answer + "2"));
  ASSERT_TRUE(wait_over(seen[1]));
  for (int i = 0; i < 3; ++i) {
    Seen again;
    start(again, get("/again"));
    EXPECT_THAT(second.read_until("\r\n\r\n"), StartsWith("GET /again "));
    ASSERT_TRUE(second.send(answer + "3"));
    ASSERT_TRUE(wait_over(again));
    EXPECT_EQ(again.body, "3");
  }
}

TEST_F(HttpClientTest, SendsOnceMoreWhenThePooledConnectionWasStale) {
  RawSocket socket = warm_up();
  Seen seen;
  start(seen, post("again"));
  // The server reads the request, but closes without an answer.
  EXPECT_THAT(socket.read_until("again"), EndsWith("again"));
  socket.close();
  RawSocket fresh = peer_.accept();
  EXPECT_THAT(fresh.read_until("again"), EndsWith("again"));
  ASSERT_TRUE(fresh.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.ends, 1);
  EXPECT_EQ(seen.body, "ok");
}

TEST_F(HttpClientTest, SendsOnceMoreOnlyOnce) {
  RawSocket socket = warm_up();
  Seen seen;
  start(seen, get());
  static_cast<void>(socket.read_until("\r\n\r\n"));
  socket.close_with_reset();
  accept_request().close();
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.error.code, ErrorCode::kUnavailable);
  EXPECT_FALSE(seen.answered);
}

TEST_F(HttpClientTest, WhatIsSentOnlyOnceIsNotSentAgain) {
  HttpClientOptions options;
  options.most_idle_for_only_once = std::chrono::hours(1);
  make_client(options);
  RawSocket socket = warm_up();
  Seen only_once;
  HttpRequest request = post("one");
  request.only_once = true;
  start(only_once, request);
  EXPECT_THAT(socket.read_until("one"), EndsWith("one")) << "the connection was in use a moment ago";
  socket.close();
  ASSERT_TRUE(wait_over(only_once));
  EXPECT_EQ(only_once.errors, 1);
  EXPECT_THAT(only_once.error.message, HasSubstr("closed the connection without an answer"));
  Seen next;
  start(next, get("/next"));
  EXPECT_THAT(peer_.accept().read_until("\r\n\r\n"), StartsWith("GET /next ")) << "nothing came in between";
  ASSERT_TRUE(wait_over(next)) << "the peer has closed without an answer";
}

TEST_F(HttpClientTest, WhatIsSentOnlyOnceTakesNoConnectionThatWasIdle) {
  HttpClientOptions options;
  options.most_idle_for_only_once = {};
  make_client(options);
  const auto answer = [&](RawSocket& socket, const Seen& seen, const std::string& target) {
    EXPECT_THAT(socket.read_until("\r\n\r\n"), StartsWith("GET " + target + " "));
    EXPECT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    EXPECT_TRUE(wait_over(seen));
  };
  Seen first;
  start(first, get("/first"));
  RawSocket idle = peer_.accept();
  answer(idle, first, "/first");
  Seen second;
  HttpRequest request = get("/second");
  request.only_once = true;
  start(second, request);
  RawSocket fresh = peer_.accept();
  answer(fresh, second, "/second");
  Seen third;
  start(third, get("/third"));
  answer(fresh, third, "/third");
}

TEST_F(HttpClientTest, NeverSendsAgainOnceAnAnswerBegan) {
  RawSocket socket = warm_up();
  Seen seen;
  start(seen, get());
  static_cast<void>(socket.read_until("\r\n\r\n"));
  ASSERT_TRUE(socket.send("HTTP/1.1 2"));
  socket.close();
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.error.code, ErrorCode::kUnavailable);
  EXPECT_TRUE(seen.answered);
}

TEST_F(HttpClientTest, AnIdleConnectionTheServerClosesIsForgotten) {
  Seen warm;
  start(warm, get());
  {
    RawSocket socket = accept_request();
    ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    ASSERT_TRUE(wait_over(warm));
  }
  Seen seen;
  start(seen, get());
  RawSocket fresh = accept_request();
  ASSERT_TRUE(fresh.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.ends, 1);
}

TEST_F(HttpClientTest, ClosesIdleConnectionsAfterTheirTime) {
  make_client({.idle_timeout = milliseconds(50)});
  Seen seen;
  start(seen, get());
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  ASSERT_TRUE(wait_over(seen));
  EXPECT_TRUE(socket.ended());
}

TEST_F(HttpClientTest, KeepsNoMoreIdleConnectionsThanAllowed) {
  make_client({.max_idle_per_host = 1});
  std::vector<Seen> seen(2);
  start(seen[0], get());
  RawSocket first = accept_request();
  start(seen[1], get());
  RawSocket second = accept_request();
  ASSERT_TRUE(first.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  ASSERT_TRUE(wait_over(seen[0]));
  ASSERT_TRUE(second.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  ASSERT_TRUE(wait_over(seen[1]));
  EXPECT_TRUE(second.ended());
}

TEST_F(HttpClientTest, DoesNotReuseAConnectionThatMustOrShouldClose) {
  for (const char* answer :
       {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nunasked bytes"}) {
    Seen seen;
    start(seen, get());
    RawSocket socket = accept_request();
    ASSERT_TRUE(socket.send(answer));
    ASSERT_TRUE(wait_over(seen));
    EXPECT_EQ(seen.ends, 1) << answer;
    EXPECT_TRUE(socket.ended()) << answer;
  }
}

TEST_F(HttpClientTest, AnAnswerWithoutLengthEndsWithTheConnection) {
  Seen seen;
  start(seen, get());
  {
    RawSocket socket = accept_request();
    ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\n\r\nuntil the end"));
  }
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.ends, 1);
  EXPECT_EQ(seen.body, "until the end");
}

TEST_F(HttpClientTest, AnAnswerThatBreaksOffIsAnErrorNeverAnEnd) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  for (const std::string& answer :
       {ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nabc", ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", ok + "Content-Length: 4\r\n\r\nabc", ok + "Con"}) {
    Seen seen;
    start(seen, get());
    {
      RawSocket socket = accept_request();
      ASSERT_TRUE(socket.send(answer));
    }
    ASSERT_TRUE(wait_over(seen));
    EXPECT_EQ(seen.ends, 0) << answer;
    EXPECT_EQ(seen.error.code, ErrorCode::kUnavailable) << answer;
    EXPECT_TRUE(seen.answered);
  }
  Seen silent;
  start(silent, get());
  accept_request().close();
  ASSERT_TRUE(wait_over(silent));
  EXPECT_EQ(silent.error.code, ErrorCode::kUnavailable);
  EXPECT_FALSE(silent.answered);
}

TEST_F(HttpClientTest, AResetNeverEndsAnAnswerWithoutLength) {
  Seen seen;
  start(seen, get());
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\n\r\nhalf"));
  ASSERT_TRUE(thread_.wait([&] { return seen.body == "half"; }));
  socket.close_with_reset();
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.error.code, ErrorCode::kUnavailable);
}

TEST_F(HttpClientTest, NonHttpIsCorrupt) {
  for (const char* answer :
       {"SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 000 Weird\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 099 Weird\r\nContent-Length: 0\r\n\r\n"}) {
    Seen seen;
    start(seen, get());
    RawSocket socket = accept_request();
    ASSERT_TRUE(socket.send(answer));
    ASSERT_TRUE(wait_over(seen));
    EXPECT_EQ(seen.error.code, ErrorCode::kCorrupt) << answer;
    EXPECT_TRUE(socket.ended());
  }
  Seen endless;
  start(endless, get());
  RawSocket socket = accept_request();
  static_cast<void>(socket.send("HTTP/1.1 200 OK\r\nX: " + std::string(200'000, 'x')));
  ASSERT_TRUE(wait_over(endless));
  EXPECT_EQ(endless.error.code, ErrorCode::kCorrupt);
}

TEST_F(HttpClientTest, AnswersThatHaveNoBodyEndAtTheirHead) {
  for (const char* answer :
       {"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"}) {
    Seen seen;
    start(seen, get());
    RawSocket socket = accept_request();
    ASSERT_TRUE(socket.send(answer));
    ASSERT_TRUE(wait_over(seen));
    EXPECT_EQ(seen.ends, 1) << answer;
    socket.close();
  }
  Seen head;
  start(head, {.method = "HEAD", .target = "/", .headers = {}, .body = {}});
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"));
  ASSERT_TRUE(wait_over(head));
  EXPECT_EQ(head.ends, 1);
  EXPECT_EQ(head.body, "");
}

}  // namespace
}  // namespace kvist::net::http_client_test
