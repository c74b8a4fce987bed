// Which API key has used more than its part of the fleet lately.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>

#include "kvist/base/time.h"

namespace kvist::dispatch {

/// Who a request counts for: the holder of an API key.
struct Tenant {
  std::uint64_t id = 0;  ///< a hash of the key's name; 0: requests without a key
  double weight = 1;     ///< its part of the fleet is in proportion to this
};

/// Counts the tokens of each key, of which half is forgotten in kHalfLife. A key's fair share is its weight among the
/// keys that asked for something lately, whether they got it or not. Memory: kMost keys, of which the one that has
/// asked for nothing for the longest time is forgotten first. Threads: one.
class FairShare {
 public:
  static constexpr Duration kHalfLife = std::chrono::seconds(10);
  /// A key without a request for so long has no claim.
  static constexpr Duration kClaim = std::chrono::seconds(10);
  static constexpr std::size_t kMost = 65'536;

  /// The key asks for something. Returns what it has used over what it may use: at most 1 while it keeps to its share,
  /// and always 1 while no other key asks for anything.
  double on_request(const Tenant& tenant, TimePoint now);
  /// Adds to the tokens that the key has used. `tokens` may be negative, to correct an estimate. Requires: on_request()
  /// was called for the key.
  void charge(std::uint64_t id, double tokens, TimePoint now);
  [[nodiscard]] std::size_t size() const { return keys_.size(); }

 private:
  struct Key {
    std::uint64_t id = 0;
    double weight = 0;
    double tokens = 0;  // at the weight of `epoch_`
    TimePoint asked;
  };
  using Keys = std::list<Key>;  // the one that asked last is at the end

  void expire(TimePoint now);
  void forget_oldest();
  [[nodiscard]] double growth(TimePoint now);

  Keys keys_;
  std::unordered_map<std::uint64_t, Keys::iterator> by_id_;
  double weights_ = 0;  // sums over keys_, as is the next
  double tokens_ = 0;
  // New tokens count more instead of old ones counting less, so idle keys need no work.
  TimePoint epoch_{};
};

}  // namespace kvist::dispatch
