// How calls end (cancelled, late, paused, refused), and client and server together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kvist/net/http_server.h"

#include "net/http_client_fixture.h"

namespace kvist::net::http_call_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(HttpClientTest, CancellingClosesTheConnectionAtOnceAndSilently) {
  Seen seen;
  const std::size_t call = start(seen, get());
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"));
  ASSERT_TRUE(thread_.wait([&] { return seen.body == "abc"; }));
  thread_.run([&] { calls_[call].reset(); });
  EXPECT_TRUE(socket.ended());
  EXPECT_FALSE(thread_.run([&] { return seen.over(); }));
}

TEST_F(HttpClientTest, CancellingBeforeTheConnectionIsMadeIsSilent) {
  Seen seen;
  thread_.run([&] { static_cast<void>(client_->start(peer_.url(), get(), seconds(5), seen.handlers())); });
  Seen other;
  start(other, get("/other"));
  RawSocket socket = peer_.accept();
  EXPECT_THAT(socket.read_until("\r\n\r\n"), StartsWith("GET /other "));
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  ASSERT_TRUE(wait_over(other));
  EXPECT_FALSE(thread_.run([&] { return seen.over(); }));
}

TEST_F(HttpClientTest, ACallMayBeDestroyedInsideEachOfItsHandlers) {
  for (const std::string where : {"head", "body", "end", "error"}) {
    int calls_after = 0;
    bool destroyed = false;
    thread_.run([&] {
      const auto token = std::make_shared<int>(0);  // the handlers' own state must survive their call
      const auto act = [&, token](const std::string& here) {
        if (destroyed) ++calls_after;
        if (here != where) return;
        destroyed = true;
        calls_.clear();
        ++*token;
      };
      CallHandlers h;
      h.on_head = [act](int, const Headers&) { act("head"); };
      h.on_body = [act](std::string_view, TimePoint) { act("body"); };
      h.on_end = [act](const CallTimes&) { act("end"); };
      h.on_error = [act](const Error&, bool) { act("error"); };
      calls_.push_back(client_->start(peer_.url(), get(), seconds(100), std::move(h)));
    });
    RawSocket socket = accept_request();
    const bool break_off = where == "error";
    ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc" + std::string(break_off ? "" : "def")));
    if (break_off) socket.finish_sending();
    ASSERT_TRUE(thread_.wait([&] { return destroyed; })) << where;
    if (where == "head" || where == "body") {
      EXPECT_TRUE(socket.ended()) << where;
    }
    socket.close();
    thread_.run([&] { EXPECT_EQ(calls_after, 0) << where; });
  }
}

TEST_F(HttpClientTest, TellsWhenTheRequestIsSentBeforeAnythingIsAnswered) {
  std::vector<std::string> order;
  TimePoint sent;
  CallTimes times;
  thread_.run([&] {
    CallHandlers h;
    h.on_sent = [&](TimePoint at) {
      order.emplace_back("sent");
      sent = at;
    };
    h.on_head = [&](int, const Headers&) { order.emplace_back("head"); };
    h.on_end = [&](const CallTimes& of_call) {
      order.emplace_back("end");
      times = of_call;
    };
    calls_.push_back(client_->start(peer_.url(), get(), seconds(100), std::move(h)));
  });
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  ASSERT_TRUE(thread_.wait([&] { return order.size() == 3; }));
  EXPECT_EQ(order, (std::vector<std::string>{"sent", "head", "end"}));
  EXPECT_EQ(sent, times.sent);
}

TEST_F(HttpClientTest, DestroyingTheCallWhenItIsSentClosesTheConnection) {
  bool later_call = false;
  thread_.run([&] {
    CallHandlers h;
    h.on_sent = [&](TimePoint) { calls_.clear(); };
    h.on_error = [&](const Error&, bool) { later_call = true; };
    calls_.push_back(client_->start(peer_.url(), get(), seconds(100), std::move(h)));
  });
  RawSocket socket = accept_request();
  EXPECT_TRUE(socket.ended());
  EXPECT_FALSE(thread_.run([&] { return later_call; }));
}

TEST_F(HttpClientTest, ReleasesWhatTheHandlersHoldWhenTheCallEnds) {
  const auto held = std::make_shared<int>(0);
  bool over = false;
  thread_.run([&] {
    CallHandlers h;
    h.on_end = [&over, held](const CallTimes&) { over = true; };
    calls_.push_back(client_->start(peer_.url(), get(), seconds(100), std::move(h)));
  });
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  ASSERT_TRUE(thread_.wait([&] { return over; }));
  EXPECT_EQ(thread_.run([&] { return held.use_count(); }), 1);
}

TEST_F(HttpClientTest, ANewCallFromOnEndUsesTheSameConnection) {
  Seen second;
  thread_.run([&] {
    CallHandlers h;
    h.on_end = [&](const CallTimes&) {
      calls_.push_back(client_->start(peer_.url(), get("/second"), seconds(100), second.handlers()));
    };
    calls_.reserve(4);
    calls_.push_back(client_->start(peer_.url(), get("/first"), seconds(100), std::move(h)));
  });
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_THAT(socket.read_until("\r\n\r\n"), StartsWith("GET /second "));
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_TRUE(wait_over(second));
}

TEST_F(HttpClientTest, TheDeadlineCoversTheWholeCall) {
  Seen silent;
  start(silent, get(), milliseconds(60));
  RawSocket first = accept_request();
  ASSERT_TRUE(wait_over(silent));
  EXPECT_EQ(silent.error.code, ErrorCode::kDeadlineExceeded);
  EXPECT_FALSE(silent.answered);
  EXPECT_TRUE(first.ended());
  Seen begun;
  start(begun, get(), milliseconds(60));
  RawSocket second = accept_request();
  ASSERT_TRUE(second.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"));
  ASSERT_TRUE(wait_over(begun));
  EXPECT_EQ(begun.error.code, ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(begun.answered);
  EXPECT_TRUE(second.ended());
}

TEST_F(HttpClientTest, ReportsARefusedConnection) {
  std::uint16_t free_port = 0;
  {
    const RawListener gone;
    free_port = gone.port();
  }
  Seen seen;
  start(seen, get(), seconds(100), "http://127.0.0.1:" + std::to_string(free_port));
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.error.code, ErrorCode::kUnavailable);
  EXPECT_FALSE(seen.answered);
  EXPECT_THAT(seen.error.message, HasSubstr(std::to_string(free_port)));
  Seen unknown;
  start(unknown, get(), seconds(100), "http://no.such.host.invalid:80");
  ASSERT_TRUE(wait_over(unknown));
  EXPECT_EQ(unknown.error.code, ErrorCode::kUnavailable);
}

TEST_F(HttpClientTest, RefusesUrlsAndRequestsItCannotSend) {
  for (const char* url :
       {"ws://127.0.0.1:1", "ftp://127.0.0.1", "http://user:pw@127.0.0.1:1", "https://user:pw@127.0.0.1:1"}) {
    Seen seen;
    start(seen, get(), seconds(100), url);
    ASSERT_TRUE(wait_over(seen));
    EXPECT_EQ(seen.error.code, ErrorCode::kUnsupported) << url;
  }
  for (const char* url : {"", "127.0.0.1:80", "http://", "http://a b", "http://h:99999", "http://h/path"}) {
    Seen seen;
    thread_.run([&] { calls_.push_back(client_->start(url, get(), seconds(100), seen.handlers())); });
    ASSERT_TRUE(wait_over(seen));
    EXPECT_EQ(seen.error.code, ErrorCode::kInvalidArgument) << url;
  }
  HttpRequest forged = get();
  forged.headers.add("X", "a\r\nForged: yes");
  Seen seen;
  start(seen, std::move(forged));
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.error.code, ErrorCode::kInvalidArgument);
}

TEST_F(HttpClientTest, PausingBoundsMemoryAndLosesNothing) {
  Seen seen;
  const std::size_t call = start(seen, get());
  RawSocket socket = accept_request();
  constexpr std::size_t kBytes = 64U << 20;
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kBytes) + "\r\n\r\nfirst"));
  ASSERT_TRUE(thread_.wait([&] { return seen.body.size() == 5; }));
  thread_.run([&] { calls_[call]->pause(); });
  std::thread sender([&] {
    std::string block(1U << 20, ' ');
    std::size_t left = kBytes - 5;
    while (left > 0) {
      const std::size_t size = std::min(left, block.size());
      if (!socket.send(std::string_view(block).substr(0, size))) return;
      left -= size;
    }
  });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(thread_.run([&] { return seen.body.size(); }), 5U);
  thread_.run([&] {
    calls_[call]->resume();
    EXPECT_EQ(seen.body.size(), 5U);  // never from within the call
  });
  ASSERT_TRUE(wait_over(seen));
  sender.join();
  EXPECT_EQ(seen.ends, 1);
  EXPECT_EQ(seen.body.size(), kBytes);
}

TEST_F(HttpClientTest, PausingInsideAHandlerHoldsTheRestOfTheSameRead) {
  std::string body;
  int ends = 0;
  thread_.run([&] {
    CallHandlers h;
    h.on_body = [&](std::string_view data, TimePoint) {
      body += data;
      calls_.back()->pause();
    };
    h.on_end = [&](const CallTimes&) { ++ends; };
    calls_.push_back(client_->start(peer_.url(), get(), seconds(100), std::move(h)));
  });
  RawSocket socket = accept_request();
  ASSERT_TRUE(
      socket.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"));
  for (const std::string expected : {"a", "ab", "abc"}) {
    ASSERT_TRUE(thread_.wait([&] { return body == expected; }));
    EXPECT_EQ(thread_.run([&] { return ends; }), 0);
    thread_.run([&] { calls_.back()->resume(); });
  }
  EXPECT_TRUE(thread_.wait([&] { return ends == 1; }));
}

TEST_F(HttpClientTest, SendsALargeBodyCompletely) {
  Seen seen;
  const std::string body(20U << 20, 'b');
  start(seen, post(body));
  RawSocket socket = peer_.accept();
  static_cast<void>(socket.read_until("\r\n\r\n"));
  EXPECT_TRUE(socket.read_bytes(body.size()) == body);
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.ends, 1);
}

TEST_F(HttpClientTest, ReadsAnEarlyRefusalBeforeTheBodyIsSentCompletely) {
  Seen seen;
  start(seen, post(std::string(20U << 20, 'b')));
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno"));
  ASSERT_TRUE(wait_over(seen));
  EXPECT_EQ(seen.status, 413);
  EXPECT_EQ(seen.body, "no");
}

TEST_F(HttpClientTest, FetchGivesTheAnswerAsOneValueOnce) {
  int done = 0;
  std::optional<Result<HttpResponse>> result;
  thread_.run([&] {
    calls_.push_back(client_->fetch(peer_.url(), get(), seconds(100), [&](Result<HttpResponse> r) {
      ++done;
      result = std::move(r);
      calls_.clear();
    }));
  });
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send(
      "HTTP/1.1 404 Not Found\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"));
  ASSERT_TRUE(thread_.wait([&] { return done == 1; }));
  ASSERT_TRUE(*result);
  EXPECT_EQ((*result)->status, 404);
  EXPECT_EQ((*result)->headers.find("X"), "y");
  EXPECT_EQ((*result)->body, "abc");
}

TEST_F(HttpClientTest, FetchBoundsTheBody) {
  make_client({.max_buffered_body_bytes = 10});
  int done = 0;
  std::optional<Result<HttpResponse>> result;
  thread_.run([&] {
    calls_.push_back(client_->fetch(peer_.url(), get(), seconds(100), [&](Result<HttpResponse> r) {
      ++done;
      result = std::move(r);
    }));
  });
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n01234567890123456789"));
  ASSERT_TRUE(thread_.wait([&] { return done == 1; }));
  ASSERT_FALSE(*result);
  EXPECT_EQ(result->error().code, ErrorCode::kTooLarge);
  EXPECT_TRUE(socket.ended());
  EXPECT_EQ(thread_.run([&] { return done; }), 1);
}

TEST_F(HttpClientTest, DestroyingTheClientClosesIdleConnections) {
  Seen seen;
  start(seen, get());
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  ASSERT_TRUE(wait_over(seen));
  thread_.run([&] { client_.reset(); });
  EXPECT_TRUE(socket.ended());
}

TEST(FetchBlocking, GivesAnswerOrError) {
  const RawListener peer;
  std::thread server([&] {
    RawSocket socket = peer.accept();
    EXPECT_THAT(socket.read_until("\r\n\r\nhi"), StartsWith("PUT /a/b?c=d HTTP/1.1\r\nX: y\r\n"));
    EXPECT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  });
  Headers headers;
  headers.add("X", "y");
  const auto answer = fetch_blocking("PUT", peer.url() + "/a/b?c=d", "hi", seconds(100), headers);
  server.join();
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "ok");
  const auto refused = fetch_blocking("GET", "ftp://127.0.0.1/", "", seconds(100));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  const auto late = fetch_blocking("GET", peer.url(), "", milliseconds(50));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
}

/// Server and client together: many concurrent streams, each in order.
TEST(HttpEndToEnd, ManyStreamsArriveWholeAndInOrder) {
  LoopThread server_thread;
  std::vector<std::shared_ptr<HttpExchange>> exchanges;
  std::unique_ptr<HttpServer> server;
  server_thread.run([&] {
    server = *HttpServer::listen(server_thread.loop(), {}, [&](HttpRequest request, auto exchange) {
      exchange->begin_stream(200, {});
      exchange->write(request.body);
      exchanges.push_back(std::move(exchange));
    });
  });
  const std::string url = server_thread.run([&] { return "http://127.0.0.1:" + std::to_string(server->port()); });
  constexpr std::size_t kStreams = 100;
  constexpr int kPieces = 200;
  std::vector<Seen> seen(kStreams);
  LoopThread client_thread;
  std::unique_ptr<HttpClient> client;
  std::vector<std::unique_ptr<HttpCall>> calls;
  client_thread.run([&] {
    client = std::make_unique<HttpClient>(client_thread.loop(), HttpClientOptions{});
    for (std::size_t i = 0; i < kStreams; ++i) {
      calls.push_back(client->start(url, post(std::to_string(i) + ":"), seconds(30), seen[i].handlers()));
    }
  });
  ASSERT_TRUE(server_thread.wait([&] { return exchanges.size() == kStreams; }));
  std::string expected;
  for (int n = 0; n < kPieces; ++n) {
    const std::string piece = std::to_string(n) + ",";
    expected += piece;
    server_thread.run([&] {
      for (const auto& exchange : exchanges) exchange->write(piece);
    });
  }
  server_thread.run([&] {
    for (const auto& exchange : exchanges) exchange->end_stream();
    exchanges.clear();
  });
  ASSERT_TRUE(client_thread.wait([&] { return std::ranges::all_of(seen, [](const Seen& s) { return s.over(); }); }));
  for (std::size_t i = 0; i < kStreams; ++i) EXPECT_EQ(seen[i].body, std::to_string(i) + ":" + expected);
  client_thread.run([&] {
    calls.clear();
    client.reset();
  });
  server_thread.run([&] { server.reset(); });
}

}  // namespace
}  // namespace kvist::net::http_call_test
