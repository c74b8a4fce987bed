#include "kvist/dispatch/fair_share.h"

#include <algorithm>
#include <cmath>

namespace kvist::dispatch {

double FairShare::on_request(const Tenant& tenant, TimePoint now) {
  expire(now);
  const auto found = by_id_.find(tenant.id);
  if (found == by_id_.end()) {
    if (keys_.size() == kMost) forget_oldest();
    by_id_[tenant.id] = keys_.insert(keys_.end(), {.id = tenant.id, .weight = tenant.weight, .asked = now});
    weights_ += tenant.weight;
  } else {
    weights_ += tenant.weight - found->second->weight;  // the file of keys may have changed
    found->second->weight = tenant.weight;
    found->second->asked = now;
    keys_.splice(keys_.end(), keys_, found->second);
  }
  if (keys_.size() == 1) return 1;
  const Key& key = keys_.back();
  if (tokens_ <= 0 || key.tokens <= 0) return 0;
  return key.tokens / tokens_ * weights_ / key.weight;
}

void FairShare::charge(std::uint64_t id, double tokens, TimePoint now) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  Key& key = *found->second;
  const double grown = tokens * growth(now);  // comes first, because it may change the tokens of all keys
  const double before = key.tokens;
  key.tokens = std::max(0.0, before + grown);
  tokens_ += key.tokens - before;
}

void FairShare::expire(TimePoint now) {
  while (!keys_.empty() && now - keys_.front().asked > kClaim) forget_oldest();
}

void FairShare::forget_oldest() {
  const Key& key = keys_.front();
  weights_ -= key.weight;
  tokens_ -= key.tokens;
  by_id_.erase(key.id);
  keys_.pop_front();
  // The remainder of rounding must not count as somebody's tokens.
  if (keys_.empty()) weights_ = tokens_ = 0;
}

double FairShare::growth(TimePoint now) {
  constexpr double kMostHalfLives = 64;
  const double half_lives = to_seconds(now - epoch_) / to_seconds(kHalfLife);
  if (half_lives <= kMostHalfLives) return std::exp2(half_lives);
  const double scale = std::exp2(-half_lives);
  tokens_ = 0;
  for (Key& key : keys_) tokens_ += key.tokens *= scale;
  epoch_ = now;
  return 1;
}

}  // namespace kvist::dispatch
