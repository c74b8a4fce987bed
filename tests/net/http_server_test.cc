#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "net/http_server_fixture.h"

namespace kvist::net::http_server_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(HttpServerTest, AnswersSeveralRequestsOnOneConnection) {
  listen();
  RawSocket socket = connect();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        socket.send("POST /echo?n=" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"));
    const std::string answer = read_answer(socket);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_EQ(body_of(answer), "POST /echo?n=" + std::to_string(i) + " hi");
  }
  EXPECT_EQ(thread_.run([&] { return server_->connections(); }), 1U);
}

TEST_F(HttpServerTest, WhileItDrainsEachAnswerEndsItsConnection) {
  listen();
  RawSocket kept = connect();
  ASSERT_TRUE(kept.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(read_answer(kept), Not(HasSubstr("Connection: close")));
  thread_.run([&] { server_->drain(); });
  RawSocket fresh = connect();
  for (RawSocket* socket : {&kept, &fresh}) {
    ASSERT_TRUE(socket->send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_THAT(read_answer(*socket), HasSubstr("Connection: close"));
  }
  EXPECT_TRUE(thread_.wait([&] { return server_->connections() == 0; }));
}

TEST_F(HttpServerTest, SaysWhenSlowClientsHaveAllThatWasWrittenOrHaveLeft) {
  listen();
  int sent = 0;
  thread_.run([&] { server_->when_sent([&] { ++sent; }); });
  EXPECT_TRUE(thread_.wait([&] { return sent == 1; })) << "nobody waits for anything";
  RawSocket reads = RawSocket::connect(port_, 4096);
  RawSocket leaves = RawSocket::connect(port_, 4096);
  RawSocket asks = connect();
  int count = 0;
  for (const RawSocket* socket : {&reads, &leaves, &asks}) {
    ASSERT_TRUE(socket->send("GET /held HTTP/1.1\r\nHost: x\r\n\r\n"));
    ASSERT_TRUE(wait_held(static_cast<std::size_t>(++count)));
    if (socket == &asks) break;  // its answer is not begun
    with_exchange([](HttpExchange& e) { e.respond({200, {}, std::string(32U << 20, 'x')}); });
  }
  thread_.run([&] { server_->when_sent([&] { ++sent; }); });
  leaves.close_with_reset();
  EXPECT_TRUE(thread_.wait([&] { return server_->connections() == 2; }));
  EXPECT_EQ(thread_.run([&] { return sent; }), 1);
  EXPECT_EQ(body_of(read_answer(reads)).size(), 32U << 20);
  EXPECT_TRUE(thread_.wait([&] { return sent == 2; }));
}

TEST_F(HttpServerTest, OfAServerThatIsGoneNobodySaysThatAllIsSent) {
  listen();
  RawSocket socket = RawSocket::connect(port_, 4096);
  ASSERT_TRUE(socket.send("GET /held HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) { e.respond({200, {}, std::string(32U << 20, 'x')}); });
  bool sent = false;
  thread_.run([&] {
    server_->when_sent([&] { sent = true; });
    held_.clear();
    server_.reset();
  });
  EXPECT_FALSE(thread_.run([&] { return sent; }));
}

TEST_F(HttpServerTest, ReadsARequestThatComesByteByByte) {
  listen();
  RawSocket socket = connect();
  for (const char c : std::string("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n")) {
    ASSERT_TRUE(socket.send(std::string_view(&c, 1)));
  }
  EXPECT_EQ(body_of(read_answer(socket)), "POST /echo abc0123456789");
}

TEST_F(HttpServerTest, TakesAWholeAddressAsTheTarget) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET http://here.example:80/echo?a=b HTTP/1.1\r\nHost: other\r\n\r\n"));
  EXPECT_EQ(body_of(read_answer(socket)), "GET /echo?a=b ");
  ASSERT_TRUE(socket.send("GET HTTP://here.example?a HTTP/1.1\r\nHost: other\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  const HttpRequest request = thread_.run([&] { return held_.back().request; });
  EXPECT_EQ(request.target, "/?a");
  EXPECT_EQ(request.headers.find("Host"), "here.example") << "the target's host counts";
  for (const std::string target : {"http://", "http:///echo", "http://user@here/echo"}) {
    RawSocket other = connect();
    ASSERT_TRUE(other.send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_THAT(other.read_to_end(), StartsWith("HTTP/1.1 400 ")) << target;
  }
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  listen();
  RawSocket socket = connect();
  std::string requests;
  for (int i = 0; i < 100; ++i) requests += "GET /echo?" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_TRUE(socket.send(requests));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(body_of(read_answer(socket)), "GET /echo?" + std::to_string(i) + " ");
}

TEST_F(HttpServerTest, KeepsAPipelinedRequestUntilTheAnswerUnderWayIsComplete) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\nGET /ec"));
  ASSERT_TRUE(wait_held(1));
  ASSERT_TRUE(socket.send("ho HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_EQ(thread_.run([&] { return requests_; }), 1);
  with_exchange([](HttpExchange& e) { e.respond({200, {}, "first"}); });
  EXPECT_EQ(body_of(read_answer(socket)), "first");
  EXPECT_EQ(body_of(read_answer(socket)), "GET /echo ");
}

TEST_F(HttpServerTest, BoundsPipelinedBytesAndServesThemLater) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  const std::string body(300'000, 'p');
  ASSERT_TRUE(socket.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + body));
  with_exchange([](HttpExchange& e) { e.respond({200, {}, "first"}); });
  EXPECT_EQ(body_of(read_answer(socket)), "first");
  EXPECT_EQ(body_of(read_answer(socket)), "POST /echo " + body);
}

TEST_F(HttpServerTest, StreamsChunksAsTheyAreWritten) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) {
    Headers headers;
    headers.add("Content-Type", "text/event-stream");
    e.begin_stream(200, headers);
  });
  const std::string head = socket.read_until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Type: text/event-stream\r\n"));
  for (int i = 0; i < 20; ++i) {
    // Each is read before the next is written: nothing is held back.
    const std::string text = "piece " + std::to_string(i);
    with_exchange([&](HttpExchange& e) { e.write(text); });
    EXPECT_EQ(socket.read_until(text + "\r\n"), (i < 10 ? "7\r\n" : "8\r\n") + text + "\r\n");
  }
  with_exchange([](HttpExchange& e) {
    e.write("");  // would end the stream if it were sent
    e.write("last");
    e.end_stream();
  });
  EXPECT_EQ(socket.read_until("0\r\n\r\n"), "4\r\nlast\r\n0\r\n\r\n");
  ASSERT_TRUE(socket.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_EQ(body_of(read_answer(socket)), "GET /echo ");
}

TEST_F(HttpServerTest, QueuesWhatTheClientDoesNotReadAndSendsItInOrder) {
  listen();
  RawSocket socket = RawSocket::connect(port_, 4096);
  ASSERT_TRUE(socket.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  std::string expected;
  int drained = 0;
  const std::size_t unsent = with_exchange([&](HttpExchange& e) {
    e.begin_stream(200, {});
    e.on_drained(1000, [&] { ++drained; });
    for (int i = 0; i < 2000; ++i) {
      const std::string piece = "<" + std::to_string(i) + std::string(8000, '.') + ">";
      expected += piece;
      e.write(piece);
    }
    return e.unsent_bytes();
  });
  EXPECT_GT(unsent, 1000U);
  with_exchange([](HttpExchange& e) { e.end_stream(); });
  EXPECT_EQ(drained, 0);
  static_cast<void>(socket.read_until("\r\n\r\n"));
  std::string got;
  while (true) {
    const std::size_t size = std::stoul(socket.read_until("\r\n"), nullptr, 16);
    if (size == 0) break;
    got += socket.read_bytes(size);
    ASSERT_EQ(socket.read_until("\r\n"), "\r\n");
  }
  EXPECT_EQ(got.size(), expected.size());
  EXPECT_TRUE(got == expected);
}

// The client is always behind, so the connection's queue is never empty, and what was sent has to be dropped from it.
TEST_F(HttpServerTest, WhatIsAlwaysInPartUnreadStaysInOrder) {
  listen();
  RawSocket socket = RawSocket::connect(port_, 4096);
  ASSERT_TRUE(socket.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  std::string expected;
  const auto write = [&](HttpExchange& e, int pieces) {
    for (int i = 0; i < pieces; ++i) {
      const std::string piece = "<" + std::to_string(expected.size()) + std::string(64'000, '.') + ">";
      expected += piece;
      e.write(piece);
    }
    return e.unsent_bytes();
  };
  with_exchange([&](HttpExchange& e) {
    e.begin_stream(200, {});
    write(e, 300);
  });
  static_cast<void>(socket.read_until("\r\n\r\n"));
  std::string got;
  const auto read_chunk = [&] {
    const std::size_t size = std::stoul(socket.read_until("\r\n"), nullptr, 16);
    got += socket.read_bytes(size);
    return size > 0 && socket.read_until("\r\n") == "\r\n";
  };
  for (int i = 0; i < 300; ++i) {
    const std::size_t unsent = with_exchange([&](HttpExchange& e) { return write(e, 1); });
    ASSERT_GT(unsent, 0U);
    ASSERT_TRUE(read_chunk());
  }
  with_exchange([](HttpExchange& e) { e.end_stream(); });
  while (read_chunk()) {
  }
  EXPECT_EQ(got.size(), expected.size());
  EXPECT_TRUE(got == expected);
}

TEST_F(HttpServerTest, ReportsEachTimeTheQueueDrains) {
  listen();
  RawSocket socket = RawSocket::connect(port_, 4096);
  ASSERT_TRUE(socket.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  int drained = 0;
  with_exchange([&](HttpExchange& e) {
    e.begin_stream(200, {});
    e.on_drained(0, [&] { ++drained; });
  });
  thread_.run([&] { return drained = 0; });  // the head may have waited for the end of the handler
  for (int round = 1; round <= 2; ++round) {
    with_exchange([](HttpExchange& e) { e.write(std::string(8U << 20, 'x')); });
    EXPECT_EQ(thread_.run([&] { return drained; }), round - 1);
    ASSERT_EQ(socket.read_until("800000\r\n").substr(0, 4), round == 1 ? "HTTP" : "\r\n80");
    EXPECT_EQ(socket.read_bytes(8U << 20).size(), 8U << 20);
    EXPECT_TRUE(thread_.wait([&] { return drained == round && held_.back().exchange->unsent_bytes() == 0; }));
  }
}

TEST_F(HttpServerTest, ReportsOnceThatTheClientLeftMidStream) {
  listen();
  {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
    ASSERT_TRUE(wait_held(1));
    with_exchange([](HttpExchange& e) {
      e.begin_stream(200, {});
      e.write("x");
    });
    EXPECT_FALSE(with_exchange([](HttpExchange& e) { return e.client_gone(); }));
  }
  ASSERT_TRUE(thread_.wait([&] { return gone_ == 1; }));
  with_exchange([](HttpExchange& e) {
    EXPECT_TRUE(e.client_gone());
    for (int i = 0; i < 100; ++i) e.write("more");
    e.end_stream();
    e.respond({200, {}, "late"});
    e.abort();
    EXPECT_EQ(e.unsent_bytes(), 0U);
  });
  EXPECT_EQ(thread_.run([&] { return gone_; }), 1);
  EXPECT_TRUE(thread_.wait([&] { return server_->connections() == 0; }));
}

TEST_F(HttpServerTest, ReportsThatTheClientLeftBeforeAnyAnswer) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  socket.close_with_reset();
  EXPECT_TRUE(thread_.wait([&] { return gone_ == 1; }));
}

TEST_F(HttpServerTest, ReportsThatTheClientLeftThoughBytesOfANextRequestWait) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  socket.close();
  EXPECT_TRUE(thread_.wait([&] { return gone_ == 1; }));
  EXPECT_EQ(thread_.run([&] { return requests_; }), 1);
}

// An answer that is to break off when the client has read what precedes: only the handler waits for that.
void hold_by_its_handler_only(std::shared_ptr<HttpExchange> exchange) {
  HttpExchange& held = *exchange;
  held.begin_stream(200, {});
  held.write(std::string(32U << 20, 'x'));
  held.on_drained(0, [exchange = std::move(exchange)] { exchange->abort(); });
}

TEST_F(HttpServerTest, AnExchangeThatOnlyItsHandlerHoldsEndsWithItsClient) {
  listen();
  RawSocket socket = RawSocket::connect(port_, 4096);
  ASSERT_TRUE(socket.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  const std::weak_ptr<HttpExchange> held = thread_.run([&] {
    std::weak_ptr<HttpExchange> weak = held_.back().exchange;
    hold_by_its_handler_only(std::move(held_.back().exchange));
    held_.clear();
    return weak;
  });
  EXPECT_FALSE(thread_.run([&] { return held.expired(); }));
  socket.close_with_reset();
  EXPECT_TRUE(thread_.wait([&] { return held.expired() && server_->connections() == 0; }));
}

TEST_F(HttpServerTest, AnExchangeThatOnlyItsHandlerHoldsEndsWithItsServer) {
  listen();
  RawSocket socket = RawSocket::connect(port_, 4096);
  ASSERT_TRUE(socket.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  const bool ended = thread_.run([&] {
    const std::weak_ptr<HttpExchange> held = held_.back().exchange;
    hold_by_its_handler_only(std::move(held_.back().exchange));
    held_.clear();
    server_.reset();
    return held.expired();
  });
  EXPECT_TRUE(ended);
}

TEST_F(HttpServerTest, ALateHandlerIsStillToldThatTheClientLeft) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  socket.close();
  ASSERT_TRUE(thread_.wait([&] { return gone_ == 1; }));
  int late = 0;
  with_exchange([&](HttpExchange& e) {
    e.on_client_gone([&] { ++late; });
    EXPECT_EQ(late, 0);  // never from within the call
  });
  EXPECT_TRUE(thread_.wait([&] { return late == 1; }));
}

TEST_F(HttpServerTest, DoesNotReportAClientThatLeavesAfterItsAnswer) {
  listen();
  {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
    ASSERT_TRUE(wait_held(1));
    with_exchange([](HttpExchange& e) { e.respond({200, {}, "done"}); });
    EXPECT_EQ(body_of(read_answer(socket)), "done");
  }
  ASSERT_TRUE(thread_.wait([&] { return server_->connections() == 0; }));
  EXPECT_EQ(thread_.run([&] { return gone_; }), 0);
  EXPECT_FALSE(with_exchange([](HttpExchange& e) { return e.client_gone(); }));
}

TEST_F(HttpServerTest, AnExchangeDroppedUnansweredGives500) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET /drop HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  thread_.run([&] { held_.clear(); });
  const std::string answer = read_answer(socket);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500 Internal Server Error\r\n"));
  EXPECT_THAT(body_of(answer), StartsWith(R"({"error":{"message":)"));
  EXPECT_EQ(thread_.run([&] { return gone_; }), 0);
}

TEST_F(HttpServerTest, AStreamDroppedOrAbortedEndsWithoutItsLastChunk) {
  listen();
  for (const bool drop : {true, false}) {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
    ASSERT_TRUE(wait_held(1));
    with_exchange([](HttpExchange& e) {
      e.begin_stream(200, {});
      e.write("half");
    });
    if (!drop) with_exchange([](HttpExchange& e) { e.abort(); });
    thread_.run([&] { held_.clear(); });
    EXPECT_THAT(socket.read_to_end(), EndsWith("4\r\nhalf\r\n"));
    EXPECT_EQ(thread_.run([&] { return gone_; }), 0);
  }
}

TEST_F(HttpServerTest, HandlesHeadRequests) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(socket.read_until("\r\n\r\n"), HasSubstr("Content-Length: 11\r\n"));
  ASSERT_TRUE(socket.send("HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) {
    e.begin_stream(200, {});
    e.write("not sent");
    e.end_stream();
  });
  EXPECT_THAT(socket.read_until("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  ASSERT_TRUE(socket.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(read_answer(socket), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, StatusesWithoutBodySendNone) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("DELETE /x HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) { e.respond({204, {}, "ignored"}); });
  EXPECT_EQ(without_date(socket.read_until("\r\n\r\n")), "HTTP/1.1 204 No Content\r\n\r\n");
  ASSERT_TRUE(socket.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(read_answer(socket), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, InvitesTheBodyOfAClientThatWaitsForIt) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_EQ(socket.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(socket.send("hi"));
  EXPECT_EQ(body_of(read_answer(socket)), "POST /echo hi");
}

// A request waits in the system while the loop is held up; it has arrived before that nevertheless.
TEST_F(HttpServerTest, KnowsWhenARequestHadArrived) {
  listen({.stamp_reads = true});
  bool stamped = false;
  // The system begins to stamp a moment after it was first asked to.
  for (std::size_t i = 1; i <= 200 && !stamped; ++i) {
    RawSocket warm = connect();
    ASSERT_TRUE(warm.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n"));
    ASSERT_TRUE(wait_held(i));
    stamped = with_exchange([](HttpExchange& exchange) { return exchange.request_arrived().has_value(); });
  }
  if (!stamped) GTEST_SKIP() << "this system stamps no packets";
  const std::size_t before = held_.size();
  RawSocket socket = connect();
  std::promise<void> held;
  std::promise<void> release;
  std::thread holder([&] {
    thread_.run([&] {
      held.set_value();
      release.get_future().wait();
    });
  });
  held.get_future().wait();
  ASSERT_TRUE(socket.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n"));
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const TimePoint let_go = now();
  release.set_value();
  holder.join();
  ASSERT_TRUE(wait_held(before + 1));
  const auto arrived = with_exchange([](HttpExchange& exchange) { return exchange.request_arrived(); });
  ASSERT_TRUE(arrived);
  EXPECT_LT(*arrived, let_go) << "though it was read later";
}

}  // namespace
}  // namespace kvist::net::http_server_test
