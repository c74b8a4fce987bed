#include "kvist/gateway/key_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/key_account.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/gateway/shared_parts.h"
#include "kvist/net/bearer_key.h"
#include "kvist/net/event_loop.h"
#include "kvist/openai/errors.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

net::HttpResponse refusal(int status, std::string body) {
  net::HttpResponse response = json_answer(std::move(body));
  response.status = status;
  return response;
}

net::HttpResponse unknown_key(bool has_one) {
  auto response = refusal(401, openai::unknown_key_body(has_one));
  response.headers.set("WWW-Authenticate", "Bearer");
  return response;
}

net::HttpResponse over_limit(const KeyAccount& account, const KeyRefusal& refused) {
  const std::int64_t seconds =
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(refused.retry_after).count());
  auto response = refusal(
      429, openai::coded_error_body(fmt::format("Rate limit reached for the key {}: {}. Try again in {} s.",
                                                account.name(), to_string(refused.limit), seconds),
                                    refused.limit == KeyLimit::kTokens ? "tokens" : "requests", "rate_limit_exceeded"));
  response.headers.set("Retry-After", std::to_string(seconds));
  return response;
}

}  // namespace

void KeyLease::end() {
  if (const auto account = std::move(account_)) account->finish(estimated_, tokens_, net::now());
}

KeyGate::KeyGate(std::shared_ptr<KeyRing> ring) : ring_(std::move(ring)), ids_(random_seed()) {}

net::HttpResponse KeyGate::named(net::HttpResponse answer, const net::Headers& request) {
  answer.headers.set(kRequestIdHeader, ids_.of(request));
  return answer;
}

KeyGate::Verdict KeyGate::admit(const net::HttpRequest& request, TimePoint now) {
  const std::string_view key = net::sent_key(request.headers);
  std::shared_ptr<KeyAccount> account = key.empty() ? nullptr : ring_->find(key);
  if (!account) return {.refusal = turn_away(request.headers, !key.empty(), now)};
  // Until the worker says how many it has.
  const std::uint64_t estimate = request.body.size() / kBytesPerToken;
  if (const auto refused = account->admit(estimate, now)) {
    warn(fmt::format("the key {} has reached its {}", account->name(), to_string(refused->limit)), now);
    return {.refusal = named(over_limit(*account, *refused), request.headers), .refused_key = account->name()};
  }
  return {.lease = KeyLease(std::move(account), estimate)};
}

std::optional<net::HttpResponse> KeyGate::refuse_stranger(const net::HttpRequest& head, TimePoint now) {
  const std::string_view key = net::sent_key(head.headers);
  if (!key.empty() && ring_->find(key)) return std::nullopt;
  return turn_away(head.headers, !key.empty(), now);
}

net::HttpResponse KeyGate::turn_away(const net::Headers& headers, bool has_key, TimePoint now) {
  unauthenticated_.fetch_add(1, std::memory_order_relaxed);
  warn(has_key ? "a request with an unknown key" : "a request without a key", now);
  return named(unknown_key(has_key), headers);
}

void KeyGate::warn(const std::string& what, TimePoint now) {
  const std::scoped_lock lock(warning_);
  if (!warnings_.pass(now)) return;
  telemetry::log_warning(
      "keys", warnings_.suppressed() == 0 ? what : fmt::format("{}; {} more refusals", what, warnings_.suppressed()));
}

}  // namespace kvist::gateway
