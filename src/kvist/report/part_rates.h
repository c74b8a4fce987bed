// A rate over the parts of a run's window. Private to the exports.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "kvist/report/sample_list.h"
#include "kvist/results/records.h"

namespace kvist::report {

/// Something that happened at an instant, and how much of it.
using CountedEvent = std::pair<TimePoint, double>;

/// The window in equal parts of about a second, whose mean is the rate over the whole window.
class WindowParts {
 public:
  explicit WindowParts(const results::LevelRecord& level) : from_(level.measure_from), to_(level.measure_to) {
    if (to_ > from_) count_ = std::max<std::size_t>(1, static_cast<std::size_t>(to_seconds(to_ - from_)));
  }

  /// Events per second in each part.
  [[nodiscard]] SampleList rates(const std::vector<CountedEvent>& events) const {
    std::vector<double> parts(count_);
    for (const auto& [at, amount] : events) {
      if (count_ > 0 && at >= from_ && at <= to_) parts[part_of(at)] += amount / width_s();
    }
    return SampleList(std::move(parts));
  }
  /// How many of the turns were under way, on average, in each part.
  [[nodiscard]] SampleList concurrency(const std::vector<workload::TurnSample>& turns) const {
    std::vector<double> parts(count_);
    for (const workload::TurnSample& turn : turns) {
      if (turn.sent == TimePoint{}) continue;
      const TimePoint begun = std::max(turn.sent, from_);
      const TimePoint ended = std::min(turn.ended, to_);
      if (count_ == 0 || ended <= begun) continue;
      for (std::size_t i = part_of(begun); i <= part_of(ended); ++i) {
        const double overlap = std::min(offset_s(ended), width_s() * static_cast<double>(i + 1)) -
                               std::max(offset_s(begun), width_s() * static_cast<double>(i));
        parts[i] += std::max(0.0, overlap) / width_s();
      }
    }
    return SampleList(std::move(parts));
  }

 private:
  [[nodiscard]] double offset_s(TimePoint at) const { return to_seconds(at - from_); }
  [[nodiscard]] double width_s() const { return offset_s(to_) / static_cast<double>(count_); }
  [[nodiscard]] std::size_t part_of(TimePoint at) const {
    return std::min(count_ - 1, static_cast<std::size_t>(offset_s(at) / width_s()));
  }

  TimePoint from_, to_;
  std::size_t count_ = 0;
};

}  // namespace kvist::report
