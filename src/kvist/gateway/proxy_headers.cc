#include "kvist/gateway/proxy_headers.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "kvist/openai/resumption.h"

namespace kvist::gateway {
namespace {

constexpr auto kOneHop = std::to_array<std::string_view>({"connection", "proxy-connection", "keep-alive",
                                                          "proxy-authenticate", "proxy-authorization", "te", "trailer",
                                                          "transfer-encoding", "upgrade", "content-length"});
// The gateway has judged where a browser's page is from; a worker would compare it with another Host.
constexpr auto kClientOnly =
    std::to_array<std::string_view>({"host", "expect", "accept-encoding", "origin", "access-control-request-method",
                                     "access-control-request-headers", openai::kResumableHeader});
constexpr auto kClientOnlyAndSecret = std::to_array<std::string_view>(
    {"host", "expect", "accept-encoding", "origin", "access-control-request-method", "access-control-request-headers",
     openai::kResumableHeader, "authorization", "x-api-key", "api-key", "cookie", "x-kvist-request"});
/// Fields in which a worker describes itself or instructs browsers. They are left out, because it is not the server
/// that the client knows.
constexpr auto kWorkerOnly = std::to_array<std::string_view>(
    {"server", "set-cookie", "set-cookie2", "via", "x-powered-by", "alt-svc", "clear-site-data", "nel", "report-to",
     "strict-transport-security", "access-control-allow-origin", "access-control-allow-credentials",
     "access-control-allow-headers", "access-control-allow-methods", "access-control-expose-headers",
     "access-control-max-age", openai::kResumableHeader});

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view other) { return same_name(name, other); });
}

std::string lowered(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
}

// The fields that a Connection field names, which are then meant for one hop only. In lower case.
std::set<std::string> named_by_connection(const net::Headers& headers) {
  std::set<std::string> names;
  for (const auto& [field, value] : headers.fields()) {
    if (!same_name(field, "connection")) continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string_view item = rest.substr(0, comma);
      while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
      while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
      names.insert(lowered(item));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return names;
}

void keep_end_to_end(net::Headers& headers, std::span<const std::string_view> also_without) {
  const std::set<std::string> one_hop = named_by_connection(headers);
  headers.remove_if([&](std::string_view name) {
    return is_one_of(name, kOneHop) || is_one_of(name, also_without) ||
           (!one_hop.empty() && one_hop.contains(lowered(name)));
  });
}

}  // namespace

net::Headers headers_for_worker(net::Headers headers, const std::string& request_id, Credentials credentials) {
  keep_end_to_end(headers, credentials == Credentials::kPass ? std::span<const std::string_view>(kClientOnly)
                                                             : std::span<const std::string_view>(kClientOnlyAndSecret));
  headers.set(kRequestIdHeader, request_id);
  return headers;
}

net::Headers headers_for_client(net::Headers headers, const std::string& request_id, std::string_view worker_url) {
  keep_end_to_end(headers, kWorkerOnly);
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

std::string_view given_request_id(const net::Headers& headers) {
  const std::string_view id = headers.find(kRequestIdHeader).value_or("");
  return is_usable_request_id(id) ? id : std::string_view();
}

}  // namespace kvist::gateway
