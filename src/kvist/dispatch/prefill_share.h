// How much of the fleet's time goes into prefill.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "kvist/base/time.h"

namespace kvist::dispatch {

/// A sum that only grows, in milliseconds of one worker, as a share of the fleet's time lately: about the last
/// kSeconds, which are some prompts. Threads: one.
class PrefillShare {
 public:
  static constexpr double kSeconds = 10;

  /// What the sum is now. Requires: `now` never decreases.
  void measure(double sum_ms, TimePoint now) {
    lately_ms_ *= std::exp(-to_seconds(now - measured_) / kSeconds);
    lately_ms_ += sum_ms - std::exchange(sum_ms_, sum_ms);
    measured_ = now;
  }
  /// Above 1: more than so many workers can do.
  [[nodiscard]] double share(std::size_t workers) const {
    return lately_ms_ / 1e3 / kSeconds / static_cast<double>(std::max<std::size_t>(1, workers));
  }

 private:
  double lately_ms_ = 0;
  double sum_ms_ = 0;
  TimePoint measured_{};
};

}  // namespace kvist::dispatch
