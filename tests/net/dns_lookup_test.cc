// Name servers at addresses of both families.
#include "kvist/net/dns_lookup.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace kvist::net::dns_lookup_test {
namespace {

using testing::HasSubstr;

/// Answers each question for an address of IPv6 with 2001:db8::7, any other with nothing.
class NameServer {
 public:
  explicit NameServer(int family) : socket_(::socket(family, SOCK_DGRAM, 0)) {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&address_);
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address_);
    address_.ss_family = static_cast<sa_family_t>(family);
    size_ = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (family == AF_INET6) {
      v6->sin6_addr = in6addr_loopback;
    } else {
      v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    bound_ = ::bind(socket_, own(), size_) == 0;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address_), &size_);
    const std::uint16_t port = ntohs(family == AF_INET6 ? v6->sin6_port : v4->sin_port);
    name_ = (family == AF_INET6 ? "[::1]:" : "127.0.0.1:") + std::to_string(port);
    if (bound_) thread_ = std::thread([this] { serve(); });
  }
  ~NameServer() {
    (void)::sendto(socket_, "", 0, 0, own(), size_);  // ends the thread
    if (thread_.joinable()) thread_.join();
    ::close(socket_);
  }
  NameServer(const NameServer&) = delete;
  NameServer& operator=(const NameServer&) = delete;

  [[nodiscard]] bool bound() const { return bound_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int questions() const { return questions_; }

 private:
  void serve() {
    std::array<std::uint8_t, 512> message{};
    while (true) {
      sockaddr_storage client{};
      socklen_t size = sizeof(client);
      const ssize_t bytes =
          ::recvfrom(socket_, message.data(), message.size(), 0, reinterpret_cast<sockaddr*>(&client), &size);
      if (bytes <= 12) return;
      ++questions_;
      // The question follows the head of 12 bytes: labels, an empty one, type and class.
      std::size_t end = 12;
      while (message[end] != 0) end += 1U + message[end];
      end += 5;
      const bool asks_for_v6 = message[end - 3] == 28;
      std::vector<std::uint8_t> answer(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(end));
      answer[2] = 0x85;
      answer[3] = 0x80;
      answer[7] = asks_for_v6 ? 1 : 0;                      // answers
      answer[8] = answer[9] = answer[10] = answer[11] = 0;  // of the other sections none
      if (asks_for_v6) {
        for (const int byte :
             {0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7})
          answer.push_back(static_cast<std::uint8_t>(byte));
      }
      (void)::sendto(socket_, answer.data(), answer.size(), 0, reinterpret_cast<const sockaddr*>(&client), size);
    }
  }

  [[nodiscard]] const sockaddr* own() const { return reinterpret_cast<const sockaddr*>(&address_); }

  int socket_;
  sockaddr_storage address_{};
  socklen_t size_ = 0;
  bool bound_ = false;
  std::string name_;
  std::atomic<int> questions_ = 0;
  std::thread thread_;
};

TEST(DnsLookupTest, TheServerMayHaveAnAddressOfEitherFamily) {
  for (const int family : {AF_INET, AF_INET6}) {
    NameServer server(family);
    if (!server.bound()) {
      EXPECT_EQ(family, AF_INET6) << "there is no IPv4";
      GTEST_SKIP() << "this machine has no IPv6";
    }
    for (int i = 0; i < 3; ++i) {
      const auto answer = look_up({.name = "llm.test.", .services = false, .port = 80, .server = server.name()});
      ASSERT_TRUE(answer) << server.name() << ": " << answer.error().message;
      ASSERT_EQ(answer->endpoints.size(), 1U);
      EXPECT_EQ(answer->endpoints.front().address, "2001:db8::7");
      EXPECT_EQ(answer->endpoints.front().port, 80);
    }
    EXPECT_EQ(server.questions(), 6) << "for addresses of both families, three times";
  }
}

TEST(DnsLookupTest, WhatIsNoServerIsSaid) {
  for (const char* server : {"10.0.0.1", "[::1]", "::1:53", "[10.0.0.1]:53", "10.0.0.1:", "[::1]:x", "host:53"}) {
    const auto answer = look_up({.name = "llm.test.", .services = false, .port = 80, .server = server});
    ASSERT_FALSE(answer) << server;
    EXPECT_EQ(answer.error().code, ErrorCode::kInvalidArgument) << server;
    EXPECT_THAT(answer.error().message, HasSubstr("like 10.0.0.1:53 or [fd00::1]:53")) << server;
  }
}

}  // namespace
}  // namespace kvist::net::dns_lookup_test
