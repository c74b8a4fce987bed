// How long delays were, in constant memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::loadgen {

/// A histogram of delays in constant memory, for the client's own health, not for what it measures. It counts in
/// buckets that grow by 5 %, from 1 us to above one minute. A quantile is a bucket's upper bound, so it is at most 5 %
/// too high and never too low. The maximum is exact. Threads: one.
class DelayHistogram {
 public:
  struct Bucket {
    Duration at_most{};
    std::uint64_t count = 0;
  };

  static constexpr std::size_t kBuckets = 384;  // 1 us x 1.05^383 = 130 s

  /// A negative delay counts as 0.
  void record(Duration delay, std::uint64_t times = 1);
  /// The smallest bucket bound that the share q of all delays does not exceed, at most max(); zero if there are no
  /// delays.
  [[nodiscard]] Duration quantile(double q) const;
  [[nodiscard]] Duration max() const { return max_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// The buckets that are not empty, ascending; bounds are at most max().
  [[nodiscard]] std::vector<Bucket> buckets() const;

 private:
  [[nodiscard]] Duration bound(std::size_t bucket) const;

  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  Duration max_{};
};

}  // namespace kvist::loadgen
