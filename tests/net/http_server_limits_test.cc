// Requests that the server refuses, its bounds and timeouts, and its shutdown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kvist/net/connections_by_address.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/reader_watch.h"
#include "kvist/net/socket.h"
#include "net/http_server_fixture.h"

namespace kvist::net::http_server_limits_test {
namespace {

using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(HttpServerTest, RefusesHeadsOfTooManyFields) {
  listen({});
  const auto head = [](int fields) {
    std::string text = "GET /echo HTTP/1.1\r\nHost: x\r\n";
    for (int i = 1; i < fields; ++i) text += "a:\r\n";
    return text + "\r\n";
  };
  RawSocket few = connect();
  ASSERT_TRUE(few.send(head(256)));
  EXPECT_THAT(read_answer(few), StartsWith("HTTP/1.1 200 "));
  RawSocket many = connect();
  ASSERT_TRUE(many.send(head(257)));
  EXPECT_THAT(read_answer(many), StartsWith("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, RefusesTooLargeBodiesInTheFormOfTheOpenAiApi) {
  listen({.max_body_bytes = 1000});
  for (const char* framing : {"Content-Length: 1001\r\n\r\n", "Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n",
                              "Transfer-Encoding: chunked\r\n\r\n3e9\r\n"}) {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send("POST /echo HTTP/1.1\r\nHost: x\r\n" + std::string(framing)));
    // All of the body is sent before the answer is read: it must not be lost to a reset.
    if (!std::string_view(framing).contains("Expect")) {
      ASSERT_TRUE(socket.send(std::string(1001, 'b')));
    }
    const std::string answer = read_answer(socket);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 413 Content Too Large\r\n"));
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    EXPECT_THAT(body_of(answer), StartsWith(R"({"error":{"message":"the request body is too large","type":)"));
    EXPECT_TRUE(socket.ended());
  }
  EXPECT_EQ(thread_.run([&] { return requests_; }), 0);
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'b')));
  EXPECT_THAT(read_answer(socket), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, BoundsAllBodiesTogether) {
  listen({.max_body_bytes = 1000, .max_bodies_bytes = 1500});
  const std::string post = "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
  RawSocket answered = connect();
  ASSERT_TRUE(answered.send(post + std::string(1000, 'a')));
  ASSERT_TRUE(wait_held(1));
  // A request counts until its answer is complete, however little of it has come.
  for (int i = 0; i < 3; ++i) {
    RawSocket refused = connect();
    ASSERT_TRUE(refused.send(post + std::string(501, 'b')));
    const std::string answer = read_answer(refused);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
    EXPECT_THAT(body_of(answer), HasSubstr("too large together"));
  }
  RawSocket leaving = connect();
  ASSERT_TRUE(leaving.send(post + std::string(400, 'c')));
  leaving.close();
  ASSERT_TRUE(thread_.wait([&] { return server_->connections() == 1; }));
  with_exchange([](HttpExchange& e) { e.respond({200, {}, "done"}); });
  EXPECT_EQ(body_of(read_answer(answered)), "done");
  RawSocket next = connect();
  ASSERT_TRUE(next.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'd')));
  EXPECT_THAT(read_answer(next), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, RefusesTooLargeHeadsOfEveryForm) {
  listen({.max_header_bytes = 2000});
  std::string many_fields;
  for (int i = 0; i < 200; ++i) many_fields += "X-Field: 0123456789\r\n";
  const std::string start = "GET /echo HTTP/1.1\r\nHost: x\r\n";
  for (const std::string& head : {start + "X: " + std::string(3000, 'y'), start + many_fields,
                                  "GET /" + std::string(3000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n"}) {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send(head));
    EXPECT_THAT(read_answer(socket), StartsWith("HTTP/1.1 431 "));
    EXPECT_TRUE(socket.ended());
  }
  // The same fields in many small pieces.
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send(start));
  for (int i = 0; i < 200; ++i) {
    if (!socket.send("X-Field: 0123456789\r\n")) break;
  }
  EXPECT_THAT(socket.read_to_end(), StartsWith("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, RefusesNonHttp) {
  listen();
  const std::string start = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  const std::map<std::string, std::string> requests = {
      {"\x16\x03\x01\x02\x01\x01\x01", "a TLS greeting"},
      {"hello\r\n\r\n", "no request line"},
      {"GET /echo HTTP/2.0\r\n\r\n", "an unknown version"},
      {"GET /echo HTTP/1.1\r\n\r\n", "no Host"},
      {"GET /echo HTTP/1.1\nHost: x\n\n", "bare line feeds"},
      {start + "Content-Length: x\r\n\r\n", "a length that is no number"},
      {start + "Content-Length: -1\r\n\r\n", "a negative length"},
      {start + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "two lengths"},
      {start + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "length and chunks"},
      {start + "Transfer-Encoding: gzip\r\n\r\n", "an unknown encoding"},
      {start + "Transfer-Encoding: chunked, gzip\r\n\r\n", "chunked, but not last"},
      {start + "Transfer-Encoding: chunked, chunked\r\n\r\n", "chunked twice"},
      {start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "two encodings"},
      {start + "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", "two encodings, the last chunked"},
      {start + "Host: y\r\n\r\n", "two hosts"},
      {start + "Host: x\r\n\r\n", "the same host twice"},
      {"GET /echo HTTP/1.0\r\nHost: x\r\nhost: y\r\n\r\n", "two hosts in HTTP/1.0"},
      {start + "A: b\r\n c\r\n\r\n", "a value that goes on in the next line"},
      {start + "A: b\r\n\tc: d\r\n\r\n", "the same with a tab"},
      {"GET /echo HTTP/1.1\r\n Host: x\r\n\r\n", "a first field that begins with a blank"},
      {"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "chunks in HTTP/1.0"},
      {start + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "a chunk size that is no number"},
      {start + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "a negative chunk size"},
      {start + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "a chunk size beyond 64 bits"},
      {start + "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", "a chunk longer than its size"},
      {start + "Transfer-Encoding: chunked\r\n\r\n2\nab\r\n", "a chunk line with a bare line feed"},
      {start + "Na me: x\r\n\r\n", "a blank in a field name"},
  };
  for (const auto& [request, why] : requests) {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send(request));
    const std::string answer = read_answer(socket);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\n")) << why;
    EXPECT_THAT(answer, HasSubstr(R"({"error":{"message":)")) << why;
    EXPECT_TRUE(socket.ended()) << why;
  }
  EXPECT_EQ(thread_.run([&] { return requests_; }), 0);
}

TEST_F(HttpServerTest, RefusesFoldedFieldsHoweverTheyArrive) {
  listen();
  const std::string head = "GET /echo HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n";
  for (std::size_t cut = 1; cut < head.size(); ++cut) {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send(head.substr(0, cut)));
    ASSERT_TRUE(thread_.wait([&] { return server_->connections() == 1; }));
    (void)socket.send(head.substr(cut));
    EXPECT_THAT(socket.read_to_end(), StartsWith("HTTP/1.1 400 ")) << cut;
    socket.close();
    ASSERT_TRUE(thread_.wait([&] { return server_->connections() == 0; }));
  }
}

TEST_F(HttpServerTest, RefusesCodingsThatItDoesNotKnow) {
  listen();
  const auto ask = [&](const std::string& fields) {
    RawSocket socket = connect();
    EXPECT_TRUE(socket.send("POST /echo HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n"));
    return read_answer(socket).substr(0, 13);
  };
  EXPECT_EQ(ask("Transfer-Encoding: gzip, chunked\r\n"), "HTTP/1.1 501 ");
  EXPECT_EQ(ask("Transfer-Encoding: gzip , chunked\r\n"), "HTTP/1.1 501 ");
  EXPECT_EQ(ask("Content-Encoding: br\r\nContent-Length: 3\r\n"), "HTTP/1.1 415 ");
  EXPECT_EQ(ask("Content-Encoding: gzip, zstd\r\nTransfer-Encoding: chunked\r\n"), "HTTP/1.1 415 ");
  EXPECT_EQ(ask("Expect: a miracle\r\n"), "HTTP/1.1 417 ");
  EXPECT_EQ(thread_.run([&] { return requests_; }), 0);
  EXPECT_EQ(ask("Content-Encoding: gzip\r\nContent-Length: 0\r\n"), "HTTP/1.1 200 ");
  EXPECT_EQ(ask("Content-Encoding: Identity\r\nContent-Length: 0\r\n"), "HTTP/1.1 200 ");
}

TEST_F(HttpServerTest, IgnoresEmptyLinesBetweenRequests) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("\r\n\r\nGET /echo HTTP/1.1\r\nHost: x\r\n\r\n\r\nGET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(read_answer(socket), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(read_answer(socket), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, NoHeaderCanForgeAnother) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) {
    Headers headers;
    headers.add("X-Request-Id", "a\r\nSet-Cookie: forged");
    headers.add("Content-Length", "999");
    headers.add("Transfer-Encoding", "chunked");
    headers.add("X-Good", "kept");
    e.respond({200, headers, "ok"});
  });
  EXPECT_EQ(without_date(read_answer(socket)), "HTTP/1.1 200 OK\r\nX-Good: kept\r\nContent-Length: 2\r\n\r\nok");
}

TEST_F(HttpServerTest, ClosesWhereEitherSideAsksForIt) {
  listen();
  RawSocket asked = connect();
  ASSERT_TRUE(asked.send("GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(asked.read_to_end(), HasSubstr("Connection: close\r\n"));

  RawSocket asking = connect();
  ASSERT_TRUE(asking.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) {
    Headers headers;
    headers.add("Connection", "close");
    e.respond({200, headers, "bye"});
  });
  EXPECT_THAT(asking.read_to_end(), EndsWith("Connection: close\r\n\r\nbye"));
}

TEST_F(HttpServerTest, ServesHttp10WithoutChunks) {
  listen();
  RawSocket kept = connect();
  ASSERT_TRUE(kept.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  EXPECT_THAT(read_answer(kept), HasSubstr("Connection: keep-alive\r\n"));
  ASSERT_TRUE(kept.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) {
    e.begin_stream(200, {});
    e.write("one ");
    e.write("two");
    e.end_stream();
  });
  EXPECT_EQ(without_date(kept.read_to_end()), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\none two");
}

TEST_F(HttpServerTest, CutsSlowRequestsAndIdleConnectionsOff) {
  // Longer than this thread may be descheduled before it sends.
  listen({.head_timeout = milliseconds(800), .body_timeout = milliseconds(800), .idle_timeout = milliseconds(800)});
  RawSocket idle = connect();
  RawSocket half_head = connect();
  ASSERT_TRUE(half_head.send("GET /echo HT"));
  RawSocket half_body = connect();
  ASSERT_TRUE(half_body.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"));
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_THAT(half_head.read_to_end(), StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  EXPECT_THAT(half_body.read_to_end(), StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
}

TEST_F(HttpServerTest, WaitsForASlowAnswerLongerThanTheIdleTimeout) {
  listen({.idle_timeout = milliseconds(800)});
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  std::this_thread::sleep_for(milliseconds(1500));
  with_exchange([](HttpExchange& e) { e.respond({200, {}, "at last"}); });
  EXPECT_EQ(body_of(read_answer(socket)), "at last");
}

TEST_F(HttpServerTest, DropsAClientThatDoesNotRead) {
  listen({.idle_timeout = milliseconds(800)});
  RawSocket socket = RawSocket::connect(port_, 4096);
  ASSERT_TRUE(socket.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) {
    e.begin_stream(200, {});
    e.write(std::string(32U << 20, 'x'));
  });
  EXPECT_TRUE(thread_.wait([&] { return gone_ == 1 && server_->connections() == 0; }));
}

TEST_F(HttpServerTest, ClosesConnectionsBeyondTheBound) {
  listen({.max_connections = 2});
  RawSocket first = connect();
  RawSocket second = connect();
  ASSERT_TRUE(first.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(second.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(2));
  RawSocket third = connect();
  EXPECT_TRUE(third.ended());
  first.close();
  ASSERT_TRUE(thread_.wait([&] { return server_->connections() == 1; }));
  RawSocket fourth = connect();
  ASSERT_TRUE(fourth.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(read_answer(fourth), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, GivesAHeadLessTimeThanABody) {
  listen({.head_timeout = milliseconds(300), .body_timeout = std::chrono::hours(1)});
  RawSocket half_body = connect();
  ASSERT_TRUE(half_body.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"));
  RawSocket half_head = connect();
  ASSERT_TRUE(half_head.send("GET /echo HT"));
  EXPECT_THAT(half_head.read_to_end(), StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  ASSERT_TRUE(half_body.send("cde"));
  EXPECT_THAT(read_answer(half_body), EndsWith("POST /echo abcde"));
}

TEST_F(HttpServerTest, DropsAClientThatReadsTooLittle) {
  // Whoever reads a few bytes in each of many idle times keeps the connection, unless a rate is asked for.
  listen({.idle_timeout = milliseconds(800), .least_read_rate = 64ULL << 20});
  RawSocket socket = RawSocket::connect(port_, 4096);
  ASSERT_TRUE(socket.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) {
    e.begin_stream(200, {});
    e.write(std::string(64U << 20, 'x'));
  });
  while (thread_.run([&] { return gone_; }) == 0) {
    (void)socket.read_bytes(2'000);
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(thread_.run([&] { return server_->connections(); }), 0U);
}

TEST(ReaderWatchTest, AsksForSoMuchInEachPeriod) {
  using std::chrono::seconds;
  constexpr TimePoint kStart{};
  ReaderWatch watch(100, seconds(10));
  EXPECT_FALSE(watch.is_too_slow(0, kStart + seconds(100)));  // nothing waits for it
  watch.begin(5'000, kStart);
  EXPECT_FALSE(watch.is_too_slow(5'000, kStart + seconds(9)));
  watch.begin(5'999, kStart + seconds(9));  // the period goes on
  EXPECT_FALSE(watch.is_too_slow(6'000, kStart + seconds(10)));
  EXPECT_FALSE(watch.is_too_slow(6'000, kStart + seconds(19)));
  EXPECT_TRUE(watch.is_too_slow(6'999, kStart + seconds(20)));
  watch.end();
  EXPECT_FALSE(watch.is_too_slow(6'999, kStart + seconds(30)));
  watch.begin(7'000, kStart + seconds(30));
  EXPECT_TRUE(watch.is_too_slow(7'999, kStart + seconds(41)));

  ReaderWatch any(0, seconds(10));
  any.begin(1, kStart);
  EXPECT_FALSE(any.is_too_slow(2, kStart + seconds(10)));
  EXPECT_TRUE(any.is_too_slow(2, kStart + seconds(20)));
}

// What a connection's buffer takes says nothing of its peer: it takes megabytes for one that reads nothing.
TEST(SocketTest, TellsWhatThePeerHasNotTaken) {
  const RawListener listener;
  RawSocket reader = RawSocket::connect(listener.port(), 4096);
  const RawSocket writer = listener.accept();
  EXPECT_EQ(unconfirmed_bytes(writer.fd()), 0U);
  const std::string piece(64U << 10, 'x');
  std::uint64_t written = 0;
  while (true) {
    const ssize_t taken = ::send(writer.fd(), piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken <= 0) break;
    written += static_cast<std::uint64_t>(taken);
  }
  EXPECT_GT(unconfirmed_bytes(writer.fd()), written / 2);
  EXPECT_EQ(reader.read_bytes(written).size(), written);
  const TimePoint limit = now() + std::chrono::seconds(20);
  while (unconfirmed_bytes(writer.fd()) > 0 && now() < limit) std::this_thread::yield();
  EXPECT_EQ(unconfirmed_bytes(writer.fd()), 0U);
}

TEST_F(HttpServerTest, KeepsPlacesForRequestsThatAreAlwaysServed) {
  listen({.max_connections = 1, .reserved_connections = 2, .is_reserved = [](const HttpRequest& request) {
            return request.path() == "/echo";
          }});
  RawSocket holder = connect();
  ASSERT_TRUE(holder.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  for (int i = 0; i < 3; ++i) {
    RawSocket health = connect();
    ASSERT_TRUE(health.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
    const std::string answer = health.read_to_end();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    RawSocket other = connect();
    ASSERT_TRUE(other.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
    const std::string refused = other.read_to_end();
    EXPECT_THAT(refused, StartsWith("HTTP/1.1 503 "));
    EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
  }
  // Those who only hold the places are the first to lose them.
  std::vector<RawSocket> silent;
  for (std::size_t i = 0; i < 5; ++i) {
    silent.push_back(connect());
    ASSERT_TRUE(thread_.wait([&] { return server_->connections() >= std::min<std::size_t>(i + 2, 3); }));
  }
  RawSocket health = connect();
  ASSERT_TRUE(health.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(health.read_to_end(), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(silent.front().ended());
  EXPECT_EQ(thread_.run([&] { return held_.size(); }), 1U);
}

// The address has no place left, so its next connection must not cost one that waits in a reserved place.
TEST_F(HttpServerTest, WhoHasTooManyConnectionsTakesNoReservedPlaceAway) {
  listen({.max_connections = 1,
          .reserved_connections = 1,
          .is_reserved = [](const HttpRequest& request) { return request.path() == "/echo"; },
          .by_address = std::make_shared<ConnectionsByAddress>(2)});
  RawSocket usual = connect();
  ASSERT_TRUE(usual.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  RawSocket health = connect();
  ASSERT_TRUE(thread_.wait([&] { return server_->connections() == 2; }));
  RawSocket third = connect();
  EXPECT_TRUE(third.ended());
  ASSERT_TRUE(health.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(health.read_to_end(), StartsWith("HTTP/1.1 200 "));
}

// A place for which there is no room counts for its address no longer.
TEST_F(HttpServerTest, ARefusedConnectionIsNotCountedForItsAddress) {
  const auto by_address = std::make_shared<ConnectionsByAddress>(2);
  listen({.max_connections = 1, .by_address = by_address});
  RawSocket usual = connect();
  ASSERT_TRUE(usual.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  for (int i = 0; i < 3; ++i) {
    RawSocket other = connect();
    EXPECT_TRUE(other.ended());
  }
  EXPECT_EQ(by_address->refused(), 0U);
}

TEST_F(HttpServerTest, ReadsNoBodyOfARequestWhoseHeadIsRefused) {
  int asked = 0;
  listen({.max_bodies_bytes = 0, .before_body = [&](const HttpRequest& head) -> std::optional<HttpResponse> {
            ++asked;
            if (head.headers.find("Authorization")) return std::nullopt;
            return HttpResponse{.status = 401, .headers = {}, .body = "who are you?"};
          }});
  for (const char* framing : {"Content-Length: 500000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n3e8\r\n",
                              "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"}) {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send("POST /echo HTTP/1.1\r\nHost: x\r\n" + std::string(framing)));
    const std::string answer = read_answer(socket);  // though nothing of the body was sent
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 401 "));
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    EXPECT_THAT(answer, EndsWith("who are you?"));
    EXPECT_TRUE(socket.ended());
  }
  RawSocket without_body = connect();
  ASSERT_TRUE(without_body.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(read_answer(without_body), StartsWith("HTTP/1.1 200 "));
  RawSocket known = connect();
  ASSERT_TRUE(known.send("POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nContent-Length: 5\r\n\r\nhello"));
  EXPECT_THAT(read_answer(known), StartsWith("HTTP/1.1 503 "));  // the body is read, as far as there is room
  thread_.run([&] {
    EXPECT_EQ(asked, 4);
    EXPECT_EQ(requests_, 1);
  });
}

// The page has to be able to read why it was refused.
TEST_F(HttpServerTest, ARefusalByTheHeadIsReadableForAllowedPages) {
  listen({.before_body = [](const HttpRequest&) { return HttpResponse{.status = 401, .headers = {}, .body = {}}; },
          .browsers = BrowserPolicy{.origins = {"https://chat.example"}}});
  const auto ask = [&](const std::string& origin) {
    RawSocket socket = connect();
    EXPECT_TRUE(
        socket.send("POST /echo HTTP/1.1\r\nHost: x\r\nOrigin: " + origin + "\r\nContent-Length: 5\r\n\r\nhello"));
    return read_answer(socket);
  };
  const std::string allowed = ask("https://chat.example");
  EXPECT_THAT(allowed, StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(allowed, HasSubstr("Access-Control-Allow-Origin: https://chat.example\r\n"));
  EXPECT_THAT(ask("https://evil.example"), StartsWith("HTTP/1.1 403 "));
}

TEST_F(HttpServerTest, BoundsTheConnectionsOfAnAddress) {
  const auto by_address = std::make_shared<ConnectionsByAddress>(2);
  listen({.by_address = by_address});
  RawSocket first = connect();
  RawSocket second = connect();
  ASSERT_TRUE(thread_.wait([&] { return server_->connections() == 2; }));
  RawSocket third = connect();
  EXPECT_TRUE(third.ended());
  EXPECT_EQ(by_address->refused(), 1U);
  first.close();
  ASSERT_TRUE(thread_.wait([&] { return server_->connections() == 1; }));
  RawSocket fourth = connect();
  ASSERT_TRUE(fourth.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(read_answer(fourth), StartsWith("HTTP/1.1 200"));
}

TEST(ConnectionsByAddressTest, CountsEachAddressForItself) {
  ConnectionsByAddress counts(1);
  EXPECT_TRUE(counts.enter(1));
  EXPECT_TRUE(counts.enter(2));
  EXPECT_FALSE(counts.enter(1));
  counts.leave(1);
  EXPECT_TRUE(counts.enter(1));
  EXPECT_FALSE(ConnectionsByAddress(0).enter(1));
}

TEST(ConnectionsByAddressTest, AHostOfIpv6IsOneAddress) {
  const auto key = [](const char* text) { return address_key(*numeric_endpoint(text, 1)); };
  EXPECT_EQ(key("127.0.0.1"), 0x7F000001U);
  EXPECT_EQ(key("::ffff:127.0.0.1"), key("127.0.0.1"));
  EXPECT_EQ(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::9"));
  EXPECT_NE(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
}

TEST_F(HttpServerTest, ClosingEndsIdleConnectionsAndLetsAnswersFinish) {
  listen();
  RawSocket idle = connect();
  RawSocket busy = connect();
  ASSERT_TRUE(idle.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(read_answer(idle), StartsWith("HTTP/1.1 200"));
  ASSERT_TRUE(busy.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  thread_.run([&] {
    server_->close();
    server_->close();
  });
  EXPECT_TRUE(idle.ended());
  EXPECT_THROW(connect(), std::runtime_error);
  with_exchange([](HttpExchange& e) { e.respond({200, {}, "finished"}); });
  EXPECT_THAT(busy.read_to_end(), EndsWith("Connection: close\r\n\r\nfinished"));
  busy.close();
  EXPECT_TRUE(thread_.wait([&] { return server_->connections() == 0; }));
}

TEST_F(HttpServerTest, AnExchangeOutlivesItsServer) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  thread_.run([&] { server_.reset(); });
  EXPECT_TRUE(socket.ended());
  with_exchange([](HttpExchange& e) {
    EXPECT_TRUE(e.client_gone());
    e.begin_stream(200, {});
    e.write("x");
  });
  EXPECT_EQ(thread_.run([&] { return gone_; }), 0);
}

TEST_F(HttpServerTest, ListensOnTheGivenAddressOrNamesTheReason) {
  listen();
  thread_.run([&] {
    const auto taken = HttpServer::listen(thread_.loop(), {.port = port_}, [](auto, auto) {});
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(taken.error().message, HasSubstr("127.0.0.1:" + std::to_string(port_)));
    EXPECT_FALSE(HttpServer::listen(thread_.loop(), {.host = "no.such.host.invalid"}, [](auto, auto) {}));
  });
}

}  // namespace
}  // namespace kvist::net::http_server_limits_test
