#include "kvist/gateway/proxy_headers.h"

#include <algorithm>
#include <array>
#include <span>

namespace kvist::gateway {
namespace {

constexpr auto kOneHop = std::to_array<std::string_view>({"connection", "proxy-connection", "keep-alive",
                                                          "proxy-authenticate", "proxy-authorization", "te", "trailer",
                                                          "transfer-encoding", "upgrade", "content-length"});
constexpr auto kClientOnly = std::to_array<std::string_view>({"host", "expect", "accept-encoding"});

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view other) { return same_name(name, other); });
}

// Whether a Connection field names this field, which is then meant for one hop only.
bool named_by_connection(std::string_view name, const net::Headers& headers) {
  for (const auto& [field, value] : headers.fields()) {
    if (!same_name(field, "connection")) continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string_view item = rest.substr(0, comma);
      while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
      while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
      if (same_name(item, name)) return true;
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return false;
}

net::Headers end_to_end(const net::Headers& from, std::span<const std::string_view> also_without) {
  net::Headers to;
  for (const auto& [name, value] : from.fields()) {
    if (is_one_of(name, kOneHop) || is_one_of(name, also_without) || named_by_connection(name, from)) continue;
    to.add(name, value);
  }
  return to;
}

}  // namespace

net::Headers headers_for_worker(const net::Headers& from_client, const std::string& request_id) {
  net::Headers headers = end_to_end(from_client, kClientOnly);
  headers.set(kRequestIdHeader, request_id);
  return headers;
}

net::Headers headers_for_client(const net::Headers& from_worker, const std::string& request_id,
                                std::string_view worker_url) {
  net::Headers headers = end_to_end(from_worker, {});
  headers.set(kRequestIdHeader, request_id);
  const auto location = headers.find("Location");
  if (location && !worker_url.empty() && location->starts_with(worker_url) &&
      location->substr(worker_url.size()).starts_with('/'))
    headers.set("Location", std::string(location->substr(worker_url.size())));
  return headers;
}

bool is_usable_request_id(std::string_view id) {
  constexpr std::size_t kMaxLength = 128;
  return !id.empty() && id.size() <= kMaxLength && std::ranges::all_of(id, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace kvist::gateway
