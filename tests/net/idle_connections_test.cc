// Who makes room when a server's places are taken, and what a server counts.
#include "kvist/net/idle_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kvist/net/connections_by_address.h"
#include "kvist/net/http_client.h"
#include "kvist/net/tls.h"
#include "net/certificates.h"
#include "net/http_server_fixture.h"

namespace kvist::net::idle_connections_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kEcho = "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr const char* kHold = "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n";

class IdleConnectionsMakeRoom : public HttpServerTest {
 protected:
  [[nodiscard]] HttpServerReport report() {
    return thread_.run([&] { return server_->report(); });
  }
  [[nodiscard]] bool wait_connections(std::size_t count) {
    return thread_.wait([&] { return server_->connections() == count; });
  }
  static bool is_served(RawSocket& socket) {
    return socket.send(kEcho) && read_answer(socket).starts_with("HTTP/1.1 200");
  }
};

TEST_F(IdleConnectionsMakeRoom, TheOneThatIsIdleLongestGoes) {
  listen({.max_connections = 3});
  RawSocket first = connect();
  ASSERT_TRUE(wait_connections(1));
  RawSocket second = connect();
  ASSERT_TRUE(wait_connections(2));
  RawSocket busy = connect();
  ASSERT_TRUE(busy.send(kHold));
  ASSERT_TRUE(wait_held(1));
  EXPECT_TRUE(is_served(first));  // since then it is idle, which the second has been for longer

  RawSocket fourth = connect();
  EXPECT_TRUE(second.ended());
  EXPECT_TRUE(is_served(fourth));
  RawSocket fifth = connect();
  EXPECT_TRUE(first.ended());
  EXPECT_TRUE(is_served(fifth));
  const HttpServerReport now = report();
  EXPECT_EQ(now.connections, 3U);
  EXPECT_EQ(now.idle, 2U);
  EXPECT_EQ(now.closed_for_others, 2U);
  EXPECT_EQ(now.without_a_place, 0U);
  with_exchange([](HttpExchange& e) { e.respond({200, {}, "done"}); });
  EXPECT_EQ(body_of(read_answer(busy)), "done");
}

TEST_F(IdleConnectionsMakeRoom, StrangersThatHoldAllPlacesShutNobodyOut) {
  constexpr std::size_t kPlaces = 20;
  listen({.max_connections = kPlaces});
  std::vector<RawSocket> strangers;
  for (std::size_t i = 0; i < 2 * kPlaces; ++i) strangers.push_back(connect());
  for (int i = 0; i < 10; ++i) {
    RawSocket client = connect();
    EXPECT_TRUE(is_served(client)) << i;
    strangers.push_back(connect());
  }
  EXPECT_LE(report().connections, kPlaces);
  EXPECT_EQ(report().without_a_place, 0U);
}

TEST_F(IdleConnectionsMakeRoom, NoneWithAPartOfARequestDoes) {
  listen({.max_connections = 4});
  RawSocket half_head = connect();
  ASSERT_TRUE(half_head.send("GET /ec"));
  RawSocket half_body = connect();
  ASSERT_TRUE(half_body.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe"));
  RawSocket next_begun = connect();
  ASSERT_TRUE(next_begun.send(std::string(kEcho) + "GET /echo HT"));
  EXPECT_THAT(read_answer(next_begun), StartsWith("HTTP/1.1 200"));
  RawSocket busy = connect();
  ASSERT_TRUE(busy.send(kHold));
  ASSERT_TRUE(wait_held(1));
  ASSERT_TRUE(thread_.wait([&] { return server_->connections() == 4 && server_->report().idle == 0; }));

  RawSocket newcomer = connect();
  EXPECT_TRUE(newcomer.ended());
  EXPECT_EQ(report().without_a_place, 1U);
  EXPECT_EQ(report().closed_for_others, 0U);
  ASSERT_TRUE(half_head.send("ho HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(read_answer(half_head), StartsWith("HTTP/1.1 200"));
  ASSERT_TRUE(half_body.send("llo"));
  EXPECT_EQ(body_of(read_answer(half_body)), "POST /echo hello");
  ASSERT_TRUE(next_begun.send("TP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(read_answer(next_begun), StartsWith("HTTP/1.1 200"));
}

// The newcomer is noticed first, as it came first.
TEST_F(IdleConnectionsMakeRoom, NoneWhoseRequestWaitsToBeReadDoes) {
  listen({.max_connections = 2});
  RawSocket busy = connect();
  ASSERT_TRUE(busy.send(kHold));
  ASSERT_TRUE(wait_held(1));
  RawSocket asking = connect();
  ASSERT_TRUE(wait_connections(2));
  std::vector<RawSocket> newcomer;
  thread_.run([&] {
    newcomer.push_back(connect());
    EXPECT_TRUE(asking.send(kEcho));
  });
  EXPECT_THAT(read_answer(asking), StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(newcomer.front().ended());
}

// Who sends nothing but empty lines, which are ignored, is idle as long as one who sends nothing.
TEST_F(IdleConnectionsMakeRoom, EmptyLinesKeepNoPlace) {
  listen({.max_connections = 2});
  RawSocket lines = connect();
  ASSERT_TRUE(wait_connections(1));
  RawSocket other = connect();
  ASSERT_TRUE(wait_connections(2));
  ASSERT_TRUE(lines.send("\r\n\r\n"));
  EXPECT_TRUE(is_served(other));
  RawSocket newcomer = connect();
  EXPECT_TRUE(lines.ended());
  EXPECT_TRUE(is_served(newcomer));
  EXPECT_TRUE(is_served(other));
}

TEST_F(IdleConnectionsMakeRoom, WhoOnlyBeginsAHandshakeDoes) {
  const Certificate authority{{.is_authority = true}};
  const Certificate good{{}, &authority};
  const auto tls = TlsServer::load({.certificate = good.certificate(), .key = good.key()});
  ASSERT_TRUE(tls) << tls.error().message;
  listen({.max_connections = 2, .tls = *tls});
  RawSocket silent = connect();
  RawSocket half = connect();
  ASSERT_TRUE(half.send("\x16\x03\x01"));
  ASSERT_TRUE(wait_connections(2));
  const auto client = TlsClient::load({.ca = authority.certificate()});
  ASSERT_TRUE(client) << client.error().message;
  for (int i = 0; i < 3; ++i) {
    const auto answer = fetch_blocking("POST", "https://127.0.0.1:" + std::to_string(port_) + "/echo", "hello",
                                       std::chrono::seconds(20), {}, *client);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body, "POST /echo hello");
  }
  EXPECT_TRUE(silent.ended());
  EXPECT_GE(report().closed_for_others, 1U);
}

TEST_F(IdleConnectionsMakeRoom, AReservedPlaceIsNotAmongThem) {
  listen({.max_connections = 1, .reserved_connections = 1, .is_reserved = [](const HttpRequest& request) {
            return request.path() == "/echo";
          }});
  RawSocket busy = connect();
  ASSERT_TRUE(busy.send(kHold));
  ASSERT_TRUE(wait_held(1));
  RawSocket health = connect();
  ASSERT_TRUE(wait_connections(2));
  EXPECT_EQ(report().idle, 0U);
  EXPECT_EQ(report().reserved, 1U);
  EXPECT_TRUE(is_served(health));
}

TEST_F(IdleConnectionsMakeRoom, EachRefusalIsCountedByItsStatus) {
  const auto by_address = std::make_shared<ConnectionsByAddress>(100);
  listen({.max_body_bytes = 1000,
          .max_bodies_bytes = 500,
          .max_header_bytes = 2000,
          .by_address = by_address,
          .browsers = BrowserPolicy{}});
  const std::string post = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  const std::vector<std::pair<int, std::string>> requests = {
      {400, "hello\r\n\r\n"},
      {403, post + "Origin: https://evil.example\r\nContent-Length: 1\r\n\r\n"},
      {403, "GET /echo HTTP/1.1\r\nHost: x\r\nOrigin: https://evil.example\r\n\r\n"},
      {413, post + "Content-Length: 1001\r\n\r\n"},
      {415, post + "Content-Encoding: br\r\nContent-Length: 1\r\n\r\n"},
      {417, post + "Expect: a miracle\r\n\r\n"},
      {431, post + "X: " + std::string(3000, 'y')},
      {501, post + "Transfer-Encoding: gzip, chunked\r\n\r\n"},
      {503, post + "Content-Length: 501\r\n\r\n" + std::string(501, 'b')},
  };
  HttpServerReport expected;
  for (const auto& [status, request] : requests) {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send(request));
    EXPECT_THAT(read_answer(socket), StartsWith("HTTP/1.1 " + std::to_string(status))) << request;
    expected.count_refusal(status);
  }
  EXPECT_EQ(report().refused, expected.refused);
  EXPECT_EQ(thread_.run([&] { return requests_; }), 0);
}

TEST_F(IdleConnectionsMakeRoom, AnAddressWithTooManyIsCounted) {
  listen({.by_address = std::make_shared<ConnectionsByAddress>(1)});
  RawSocket first = connect();
  ASSERT_TRUE(wait_connections(1));
  RawSocket second = connect();
  EXPECT_TRUE(second.ended());
  EXPECT_EQ(report().over_address_bound, 1U);
  EXPECT_EQ(report().connections, 1U);
}

TEST(HttpServerReportTest, IsASumOverServers) {
  HttpServerReport a{.connections = 1, .idle = 2, .reserved = 3, .closed_for_others = 4, .without_a_place = 5};
  a.over_address_bound = 6;
  a.count_refusal(408);
  const HttpServerReport b = a;
  a += b;
  HttpServerReport twice{.connections = 2, .idle = 4, .reserved = 6, .closed_for_others = 8, .without_a_place = 10};
  twice.over_address_bound = 12;
  twice.count_refusal(408);
  twice.count_refusal(408);
  EXPECT_EQ(a, twice);
}

TEST(IdleConnectionsTest, AreInTheOrderInWhichTheyCame) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  IdleConnections idle;
  std::array<std::unique_ptr<IdleLink>, 12> links;
  for (auto& link : links) link = std::make_unique<IdleLink>();
  std::list<const IdleLink*> expected;
  for (int step = 0; step < 5'000; ++step) {
    std::unique_ptr<IdleLink>& link = links[random() % links.size()];
    switch (random() % 3) {
      case 0:
        if (!link->is_idle()) expected.push_back(link.get());
        idle.add(*link);
        break;
      case 1:
        expected.remove(link.get());
        link->leave_idle();
        break;
      case 2:
        expected.remove(link.get());
        link = std::make_unique<IdleLink>();
        break;
    }
    ASSERT_EQ(idle.size(), expected.size());
    // One refuses, and the search looks at no more than it may.
    const std::size_t most = 1 + random() % links.size();
    std::vector<const IdleLink*> asked;
    const IdleLink* const refuses = expected.empty() ? nullptr : expected.front();
    const IdleLink* const found = idle.longest(most, [&](const IdleLink& one) {
      asked.push_back(&one);
      return &one != refuses;
    });
    ASSERT_LE(asked.size(), most);
    const IdleLink* const second = expected.size() > 1 && most > 1 ? *std::next(expected.begin()) : nullptr;
    ASSERT_EQ(found, second);
  }
}

}  // namespace
}  // namespace kvist::net::idle_connections_test
