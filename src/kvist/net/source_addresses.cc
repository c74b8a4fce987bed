#include "kvist/net/source_addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "kvist/net/socket.h"

namespace kvist::net {
namespace {

std::unexpected<Error> wrong(std::string_view text) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("\"{}\"; want addresses of this machine like 127.0.0.2-127.0.0.9, 10.0.0.8/29, or several "
                          "with commas",
                          text));
}

std::optional<std::uint32_t> ipv4(std::string_view text) {
  in_addr address{};
  if (::inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

std::string text_of(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
}

bool is_ipv6(std::string_view text) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, std::string(text).c_str(), &address) == 1;
}

Result<void> add_range(std::uint32_t first, std::uint32_t last, std::vector<std::string>& addresses) {
  if (last - first >= kMostSourceAddresses - addresses.size()) {
    return fail(ErrorCode::kTooLarge, fmt::format("more than {} source addresses", kMostSourceAddresses));
  }
  for (std::uint32_t address = first;; ++address) {
    addresses.push_back(text_of(address));
    if (address == last) return {};
  }
}

Result<void> add_item(std::string_view item, std::vector<std::string>& addresses) {
  if (const std::size_t slash = item.find('/'); slash != std::string_view::npos) {
    const std::optional<std::uint32_t> base = ipv4(item.substr(0, slash));
    const std::string_view digits = item.substr(slash + 1);
    int bits = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (!base || error != std::errc() || end != digits.data() + digits.size() || bits < 1 || bits > 32) {
      return wrong(item);
    }
    const std::uint32_t hosts = bits == 32 ? 0 : ~std::uint32_t{0} >> bits;
    const std::uint32_t network = *base & ~hosts;
    return bits >= 31 ? add_range(network, network | hosts, addresses)
                      : add_range(network + 1, (network | hosts) - 1, addresses);
  }
  if (const std::size_t dash = item.find('-'); dash != std::string_view::npos) {
    const std::optional<std::uint32_t> first = ipv4(item.substr(0, dash));
    const std::optional<std::uint32_t> last = ipv4(item.substr(dash + 1));
    if (!first || !last || *first > *last) return wrong(item);
    return add_range(*first, *last, addresses);
  }
  if (const std::optional<std::uint32_t> one = ipv4(item)) return add_range(*one, *one, addresses);
  if (!is_ipv6(item)) return wrong(item);
  if (addresses.size() >= kMostSourceAddresses) {
    return fail(ErrorCode::kTooLarge, fmt::format("more than {} source addresses", kMostSourceAddresses));
  }
  addresses.emplace_back(item);
  return {};
}

}  // namespace

Result<std::vector<std::string>> parse_source_addresses(std::string_view text) {
  std::vector<std::string> addresses;
  std::string_view rest = text;
  do {
    const std::string_view item = rest.substr(0, rest.find(','));
    KVIST_TRY_VOID(add_item(item, addresses));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
  } while (!rest.empty());
  return addresses;
}

Result<void> check_source_addresses(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    const std::optional<Endpoint> endpoint = numeric_endpoint(address, 0);
    if (!endpoint) return wrong(address);
    if (const Result<UniqueFd> bound = bound_socket(*endpoint); !bound) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("cannot connect from {}: {}; want addresses of this machine",
                                                           address, bound.error().message));
    }
  }
  return {};
}

}  // namespace kvist::net
