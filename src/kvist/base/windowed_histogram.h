// Quantiles over a window of very many samples, in constant memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/time.h"

namespace kvist {

/// Durations of the last `window`, counted in buckets that grow by 1 %, from 1 us to three minutes. A quantile is a
/// bucket's upper bound: at most 1 % too high, never too low (0 and everything below 1 us counts as 1 us, longer than
/// three minutes as three minutes). The window ends now and begins up to a twelfth of its length early. Memory: about
/// 100 kB, whatever the number of samples. For displays; exact figures come from samples that are kept. Threads: one.
/// Requires: observations come in the order of time.
class WindowedHistogram {
 public:
  explicit WindowedHistogram(Duration window);

  void observe(TimePoint now, double ms);
  /// The smallest bucket bound, in milliseconds, that the share q of the window's samples does not exceed; nothing if
  /// there are none.
  [[nodiscard]] std::optional<double> quantile(TimePoint now, double q) const { return quantile_of(now, q, kSlices); }
  /// The same of the last `within`, rounded up to whole twelfths of the window.
  [[nodiscard]] std::optional<double> quantile(TimePoint now, double q, Duration within) const;

 private:
  static constexpr std::size_t kBuckets = 1'912;  // 1 us x 1.01^1911 = 182 s
  static constexpr int kSlices = 12;

  struct Slice {
    std::int64_t number = -1;  // of the slice since the epoch of core time; -1: empty
    std::uint64_t count = 0;
    std::vector<std::uint32_t> buckets;
  };

  [[nodiscard]] std::optional<double> quantile_of(TimePoint now, double q, std::int64_t slices) const;
  [[nodiscard]] std::int64_t number_at(TimePoint at) const { return at.time_since_epoch() / slice_length_; }

  Duration slice_length_;
  std::array<Slice, kSlices + 1> slices_;
};

}  // namespace kvist
