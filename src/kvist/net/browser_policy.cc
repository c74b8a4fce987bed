#include "kvist/net/browser_policy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "kvist/net/media_type.h"

namespace kvist::net {
namespace {

constexpr std::string_view kCustomField = "X-Kvist-Request";

std::string_view without_port(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.find(':'));
}

/// An IP address cannot be made to mean another server, and localhost is resolved without DNS.
bool is_own_name(std::string_view host) {
  if (equals_no_case(host, "localhost")) return true;
  in6_addr parsed{};
  if (host.starts_with('[') && host.ends_with(']')) {
    return ::inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &parsed) == 1;
  }
  return ::inet_pton(AF_INET, std::string(host).c_str(), &parsed) == 1;
}

bool changes_nothing(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

/// Whether the page was loaded from this server.
bool is_same_origin(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return !host.empty() && origin.substr(scheme.size()) == host;
  }
  return false;
}

BrowserVerdict refusal(int status, std::string why) {
  return {.refused = status, .why = std::move(why)};
}

/// The answer to a page that may read it. A cache must not give it to another page.
std::string allowing(std::string_view origin, bool any) {
  std::string fields = "Access-Control-Allow-Origin: ";
  fields.append(any ? "*" : origin).append("\r\n");
  if (!any) fields += "Vary: Origin\r\n";
  fields += "Access-Control-Expose-Headers: x-request-id, x-kvist-worker, retry-after\r\n";
  return fields;
}

bool is_token(std::string_view text) {
  constexpr std::string_view kAllowed = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::size_t kMostBytes = 64;
  return !text.empty() && text.size() <= kMostBytes && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

/// What a page that may send requests may put into their heads: whatever it asks for, since programs may send the same
/// (SDKs have fields of their own, and new ones with each version). A list that is none, or too long, is answered with
/// the fields that are used here.
std::string allowed_headers(std::optional<std::string_view> asked) {
  constexpr std::size_t kMostNames = 64;
  const std::string usual = "authorization, content-type, x-api-key, x-request-id, x-session-id";
  std::string names;
  std::string_view rest = asked.value_or("");
  for (std::size_t count = 0; !rest.empty(); ++count) {
    std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    while (name.starts_with(' ') || name.starts_with('\t')) name.remove_prefix(1);
    while (name.ends_with(' ') || name.ends_with('\t')) name.remove_suffix(1);
    if (!is_token(name) || count == kMostNames) return usual;
    names.append(names.empty() ? "" : ", ").append(name);
  }
  return names.empty() ? usual : names;
}

}  // namespace

BrowserVerdict judge(const BrowserPolicy& policy, const HttpRequest& request) {
  const std::optional<std::string_view> origin = request.headers.find("Origin");
  const bool changes = !changes_nothing(request.method);
  if (policy.own_names_only) {
    const std::string_view host = without_port(request.headers.find("Host").value_or(""));
    if (!host.empty() && !is_own_name(host)) {
      return refusal(421,
                     "this listener is reached by an IP address or as localhost only, because another name in "
                     "Host may come from a web page");
    }
  }
  BrowserVerdict verdict;
  if (origin && !is_same_origin(*origin, request.headers.find("Host").value_or(""))) {
    const bool any = std::ranges::find(policy.origins, "*") != policy.origins.end();
    const bool allowed = any || std::ranges::find(policy.origins, *origin) != policy.origins.end();
    if (!allowed) return refusal(403, "requests of web pages of other origins are not served (see cors.origins)");
    verdict.fields = allowing(*origin, any);
    if (request.method == "OPTIONS" && request.headers.find("Access-Control-Request-Method")) {
      verdict.preflight = true;
      verdict.fields += "Access-Control-Allow-Methods: GET, POST, PUT, DELETE\r\n";
      verdict.fields += "Access-Control-Allow-Headers: ";
      verdict.fields += allowed_headers(request.headers.find("Access-Control-Request-Headers")).append("\r\n");
      verdict.fields += "Vary: Access-Control-Request-Headers\r\n";
      verdict.fields += "Access-Control-Max-Age: 600\r\n";
      return verdict;
    }
  }
  if (policy.changes_need_json && changes && !has_media_type(request.headers, "application/json") &&
      !request.headers.find(kCustomField)) {
    return refusal(415,
                   "a request that changes something needs Content-Type: application/json, or the field "
                   "X-Kvist-Request: 1, so that no web page's form can send it");
  }
  return verdict;
}

}  // namespace kvist::net
