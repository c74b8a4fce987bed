#include "kvist/gateway/worker_endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>

namespace kvist::gateway {
namespace {

bool is_address(int family, const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(family, text.c_str(), bytes.data()) == 1;
}

// The position of the colon before the port, or npos.
std::size_t port_at(std::string_view authority) {
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.rfind(':');
  if (colon == std::string_view::npos) return colon;
  return bracket != std::string_view::npos && colon < bracket ? std::string_view::npos : colon;
}

}  // namespace

Result<std::string> worker_endpoint(std::string_view url) {
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kTls = "https://";
  const bool tls = url.starts_with(kTls);
  if (!tls && !url.starts_with(kPlain))
    return fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is no http or https URL", url));
  std::string_view authority = url.substr(tls ? kTls.size() : kPlain.size());
  authority = authority.substr(0, authority.find('/'));
  const std::size_t colon = port_at(authority);
  std::string host(authority.substr(0, colon));
  const std::string_view port = colon == std::string_view::npos ? (tls ? "443" : "80") : authority.substr(colon + 1);
  if (host == "localhost") host = "127.0.0.1";
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!(bracketed ? is_address(AF_INET6, host.substr(1, host.size() - 2)) : is_address(AF_INET, host))) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the host of {} is no IP address: a proxy in front of it is told addresses; give the address, "
                    "or a group of workers behind the DNS name",
                    url));
  }
  return fmt::format("{}:{}", host, port);
}

}  // namespace kvist::gateway
