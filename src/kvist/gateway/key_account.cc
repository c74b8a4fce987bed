#include "kvist/gateway/key_account.h"

#include <algorithm>

namespace kvist::gateway {
namespace {

/// The most tokens that a request is charged, whatever a worker reports.
constexpr std::uint64_t kMostTokens = 100'000'000;
/// It is not known when a place will be free. A client that asks again after this time is no burden.
constexpr Duration kPlaceWait = std::chrono::seconds(1);
constexpr Duration kLongestWait = std::chrono::hours(24);

void set_bucket(std::optional<TokenBucket>& bucket, double most, TimePoint now) {
  if (most == 0) return bucket.reset();
  if (bucket) return bucket->resize(most, now);
  bucket.emplace(most, now);
}

double price(std::uint64_t tokens) {
  return static_cast<double>(std::min(tokens, kMostTokens));
}

}  // namespace

const char* to_string(KeyLimit limit) {
  switch (limit) {
    case KeyLimit::kRequests:
      return "requests_per_minute";
    case KeyLimit::kTokens:
      return "tokens_per_minute";
    case KeyLimit::kConcurrency:
      return "concurrency";
  }
  return "";
}

void KeyUsage::set_limits(const KeyLimits& limits, TimePoint now) {
  limits_ = limits;
  set_bucket(requests_, static_cast<double>(limits.requests_per_minute), now);
  set_bucket(tokens_, static_cast<double>(limits.tokens_per_minute), now);
}

std::optional<KeyRefusal> KeyUsage::refusal(TimePoint now) {
  if (limits_.concurrency > 0 && counters_.in_flight >= limits_.concurrency)
    return KeyRefusal{KeyLimit::kConcurrency, kPlaceWait};
  const auto wait_for = [&](std::optional<TokenBucket>& bucket) {
    return bucket ? std::min(bucket->wait_for(1, now), kLongestWait) : Duration(0);
  };
  if (const Duration wait = wait_for(tokens_); wait > Duration(0)) return KeyRefusal{KeyLimit::kTokens, wait};
  if (const Duration wait = wait_for(requests_); wait > Duration(0)) return KeyRefusal{KeyLimit::kRequests, wait};
  return std::nullopt;
}

std::optional<KeyRefusal> KeyUsage::admit(std::uint64_t estimated_tokens, TimePoint now) {
  if (const auto refused = refusal(now)) {
    ++counters_.refused[static_cast<std::size_t>(refused->limit)];
    return refused;
  }
  if (requests_) requests_->take(1, now);
  if (tokens_) tokens_->take(price(estimated_tokens), now);
  ++counters_.requests;
  ++counters_.in_flight;
  return std::nullopt;
}

void KeyUsage::finish(std::uint64_t estimated_tokens, std::uint64_t tokens, TimePoint now) {
  --counters_.in_flight;
  counters_.tokens += std::min(tokens, kMostTokens);
  if (tokens_) tokens_->take(price(tokens) - price(estimated_tokens), now);
}

}  // namespace kvist::gateway
