#include "kvist/loadgen/agents/clock_offset.h"

#include <algorithm>

namespace kvist::loadgen {

std::optional<ClockOffset> offset_of(std::span<const ClockReading> readings) {
  const ClockReading* best = nullptr;
  for (const ClockReading& reading : readings) {
    if (reading.received < reading.sent) continue;
    if (best == nullptr || reading.round_trip() < best->round_trip()) best = &reading;
  }
  if (best == nullptr) return std::nullopt;
  const TimePoint middle = best->sent + best->round_trip() / 2;
  // Rounded up: with an odd number of nanoseconds the middle is half of one too early.
  return ClockOffset{.at = middle, .ahead = best->remote - middle, .bound = (best->round_trip() + Duration(1)) / 2};
}

TimePoint ClockComparison::to_local(TimePoint remote) const {
  const TimePoint first = remote - before_.ahead;
  if (!after_ || after_->at <= before_.at) return first;
  const double share = to_seconds(first - before_.at) / to_seconds(after_->at - before_.at);
  const double gained = static_cast<double>((after_->ahead - before_.ahead).count());
  return first - Duration(static_cast<std::int64_t>(std::clamp(share, 0.0, 1.0) * gained));
}

Duration ClockComparison::bound() const {
  return after_ ? std::max(before_.bound, after_->bound) : before_.bound;
}

std::optional<Duration> ClockComparison::drift() const {
  return after_ ? std::optional(after_->ahead - before_.ahead) : std::nullopt;
}

bool ClockComparison::jumped() const {
  if (!after_) return false;
  const Duration quartz = from_seconds(to_seconds(std::chrono::abs(after_->at - before_.at)) * kMostDrift);
  return std::chrono::abs(*drift()) > before_.bound + after_->bound + quartz;
}

}  // namespace kvist::loadgen
