// Histograms of times for Prometheus, which are cheap to fill.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::gateway {

/// Counts per bucket, in place, so that nothing is allocated. `kBounds` are ascending upper bounds in nanoseconds,
/// inclusive. A value's bucket is found in constant time: its highest bit says where to begin, and within a power of
/// two there are few bounds. Threads: one.
template <const auto& kBounds>
class TimeHistogram {
 public:
  static constexpr std::size_t kBuckets = kBounds.size() + 1;  ///< the last is for values above all bounds

  void observe(Duration time) {
    const std::int64_t ns = std::max<std::int64_t>(time.count(), 0);
    std::size_t bucket = kFirst[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(ns)))];
    while (bucket < kBounds.size() && kBounds[bucket] < ns) ++bucket;
    ++counts_[bucket];
    sum_ns_ += ns;
  }

  void add(const TimeHistogram& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    sum_ns_ += other.sum_ns_;
  }

  /// Upper bounds in seconds, ascending.
  [[nodiscard]] static const std::vector<double>& bounds() {
    static const std::vector<double> kSeconds = [] {
      std::vector<double> seconds;
      for (const std::int64_t bound : kBounds) seconds.push_back(static_cast<double>(bound) / 1e9);
      return seconds;
    }();
    return kSeconds;
  }
  /// The count of each bucket; one more bucket is for values above the last bound.
  [[nodiscard]] std::vector<std::uint64_t> counts() const { return {counts_.begin(), counts_.end()}; }
  [[nodiscard]] double sum_seconds() const { return static_cast<double>(sum_ns_) / 1e9; }
  [[nodiscard]] bool empty() const {
    return std::ranges::all_of(counts_, [](std::uint64_t count) { return count == 0; });
  }

 private:
  /// By the number of a value's bits: the first bucket whose bound is not below the least such value.
  static constexpr std::array<std::uint8_t, 65> kFirst = [] {
    std::array<std::uint8_t, 65> first{};
    for (std::size_t bits = 1; bits < first.size(); ++bits) {
      const std::uint64_t least = std::uint64_t{1} << (bits - 1);
      std::size_t bucket = 0;
      while (bucket < kBounds.size() && static_cast<std::uint64_t>(kBounds[bucket]) < least) ++bucket;
      first[bits] = static_cast<std::uint8_t>(bucket);
    }
    return first;
  }();

  std::array<std::uint64_t, kBuckets> counts_{};
  std::int64_t sum_ns_ = 0;
};

/// From 1 ms to 120 s, each about 1.5 times the one before.
inline constexpr std::array<std::int64_t, 29> kLatencyBounds{
    1'000'000,      2'000'000,      3'000'000,      5'000'000,      7'500'000,      10'000'000,
    15'000'000,     20'000'000,     30'000'000,     50'000'000,     75'000'000,     100'000'000,
    150'000'000,    200'000'000,    300'000'000,    500'000'000,    750'000'000,    1'000'000'000,
    1'500'000'000,  2'000'000'000,  3'000'000'000,  5'000'000'000,  7'500'000'000,  10'000'000'000,
    15'000'000'000, 20'000'000'000, 30'000'000'000, 60'000'000'000, 120'000'000'000};
/// From 5 microseconds to 1 s.
inline constexpr std::array<std::int64_t, 17> kRoutingTimeBounds{
    5'000,     10'000,     20'000,     50'000,     100'000,     200'000,     500'000,     1'000'000,    2'000'000,
    5'000'000, 10'000'000, 20'000'000, 50'000'000, 100'000'000, 200'000'000, 500'000'000, 1'000'000'000};

using LatencyHistogram = TimeHistogram<kLatencyBounds>;
using RoutingTimeHistogram = TimeHistogram<kRoutingTimeBounds>;

}  // namespace kvist::gateway
