// How far another machine's monotonic clock is from this one's, from questions that it answers with its time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kvist/base/time.h"

namespace kvist::loadgen {

/// The instants of an agent's clock are bounded to 73 years, so that no sum of a few of them overflows.
inline constexpr std::int64_t kMostClockNs = std::int64_t{1} << 61;

/// One question: sent and answered by this clock, and what the other clock showed in between.
struct ClockReading {
  TimePoint sent;
  TimePoint received;
  TimePoint remote;

  [[nodiscard]] Duration round_trip() const { return received - sent; }
};

/// The other clock shows local time + `ahead`, true to `bound` in both directions.
struct ClockOffset {
  TimePoint at;  ///< of this clock
  Duration ahead{};
  Duration bound{};

  bool operator==(const ClockOffset&) const = default;
};

/// From the reading with the smallest round trip: the other clock was read at some instant of it, so half of it bounds
/// the error. Nothing without a reading whose answer came after its question.
[[nodiscard]] std::optional<ClockOffset> offset_of(std::span<const ClockReading> readings);

/// Two clocks over a load, compared before it and after it. Between both the offset is a straight line. Threads: one.
class ClockComparison {
 public:
  explicit ClockComparison(const ClockOffset& before) : before_(before) {}

  void set_after(const ClockOffset& after) { after_ = after; }

  [[nodiscard]] const ClockOffset& before() const { return before_; }
  [[nodiscard]] const std::optional<ClockOffset>& after() const { return after_; }
  /// What the other clock shows at an instant to come, by what was known before the load.
  [[nodiscard]] TimePoint to_remote(TimePoint local) const { return local + before_.ahead; }
  /// When this clock showed what the other one did.
  [[nodiscard]] TimePoint to_local(TimePoint remote) const;
  /// By how much to_local() may be wrong: the larger bound of both comparisons.
  [[nodiscard]] Duration bound() const;
  /// By how much the other clock gained on this one over the load; nothing if it was not compared afterwards.
  [[nodiscard]] std::optional<Duration> drift() const;
  /// Whether the two clocks have parted by more than the bounds and what quartz does (kMostDrift): one of the machines
  /// was suspended or migrated, and no line tells what its clock showed in between.
  [[nodiscard]] bool jumped() const;

  /// Parts of one: clocks of machines are good to some 50 millionths, two of them differ by up to twice that.
  static constexpr double kMostDrift = 200e-6;

 private:
  ClockOffset before_;
  std::optional<ClockOffset> after_;
};

}  // namespace kvist::loadgen
