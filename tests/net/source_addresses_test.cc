#include "kvist/net/source_addresses.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <thread>

#include "kvist/net/socket.h"
#include "net/http_client_fixture.h"

namespace kvist::net::source_addresses_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SourceAddresses, AreRangesNetworksAndLists) {
  EXPECT_THAT(parse_source_addresses("127.0.0.2").value(), ElementsAre("127.0.0.2"));
  EXPECT_THAT(parse_source_addresses("127.0.0.254-127.0.1.1").value(),
              ElementsAre("127.0.0.254", "127.0.0.255", "127.0.1.0", "127.0.1.1"));
  EXPECT_THAT(parse_source_addresses("10.0.0.9/29").value(),
              ElementsAre("10.0.0.9", "10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"));
  EXPECT_THAT(parse_source_addresses("10.0.0.4/31,10.0.0.1/32,::1").value(),
              ElementsAre("10.0.0.4", "10.0.0.5", "10.0.0.1", "::1"));
  EXPECT_THAT(parse_source_addresses("255.255.255.254-255.255.255.255").value(),
              ElementsAre("255.255.255.254", "255.255.255.255"));
}

TEST(SourceAddresses, WhatIsNoneIsRefused) {
  for (const char* text : {"", "localhost", "127.0.0", "127.0.0.9-127.0.0.2", "127.0.0.1-", "10.0.0.0/0", "10.0.0.0/33",
                           "10.0.0.0/x", "1.2.3.4,,1.2.3.5", ",", "::1/64"}) {
    EXPECT_FALSE(parse_source_addresses(text).has_value()) << text;
  }
  EXPECT_EQ(parse_source_addresses("10.0.0.0/8").error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(parse_source_addresses("10.0.0.0/20,10.1.0.0/20").error().code, ErrorCode::kTooLarge);
}

TEST(SourceAddresses, ThoseOfOtherMachinesAreRefused) {
  EXPECT_TRUE(check_source_addresses({"127.0.0.1", "127.3.2.1"}).has_value());
  EXPECT_THAT(check_source_addresses({"127.0.0.1", "192.0.2.1"}).error().message,
              HasSubstr("cannot connect from 192.0.2.1: "));
}

TEST(SourceAddresses, ConnectionsComeFromEachInTurn) {
  const UniqueFd listener = std::move(listen_on(*numeric_endpoint("127.0.0.1", 0), false).value());
  const std::string url = "http://127.0.0.1:" + std::to_string(local_port(listener.get()));
  LoopThread thread;
  std::unique_ptr<HttpClient> client;
  std::vector<std::unique_ptr<HttpCall>> calls;
  std::vector<std::unique_ptr<Seen>> seen;
  thread.run([&] {
    HttpClientOptions options;
    options.source_addresses = parse_source_addresses("127.0.0.2-127.0.0.5").value();
    client = std::make_unique<HttpClient>(thread.loop(), options);
    for (int i = 0; i < 12; ++i) {
      seen.push_back(std::make_unique<Seen>());
      calls.push_back(client->start(url, get(), std::chrono::seconds(100), seen.back()->handlers()));
    }
  });
  std::map<std::string, int> peers;
  std::vector<RawSocket> accepted;
  while (accepted.size() < 12) {
    sockaddr_in peer{};
    socklen_t length = sizeof(peer);
    const int fd = ::accept(listener.get(), reinterpret_cast<sockaddr*>(&peer), &length);
    if (fd < 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it does not block
      continue;
    }
    accepted.emplace_back(fd);
    ++peers[::inet_ntoa(peer.sin_addr)];
    EXPECT_TRUE(accepted.back().send("HTTP/1.1 204 No Content\r\n\r\n"));
  }
  EXPECT_TRUE(thread.wait([&] { return std::ranges::all_of(seen, [](const auto& s) { return s->over(); }); }));
  thread.run([&] {
    EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& s) { return s->status == 204; }));
    calls.clear();
    client.reset();
  });
  EXPECT_EQ(peers,
            (std::map<std::string, int>{{"127.0.0.2", 3}, {"127.0.0.3", 3}, {"127.0.0.4", 3}, {"127.0.0.5", 3}}));
}

}  // namespace
}  // namespace kvist::net::source_addresses_test
