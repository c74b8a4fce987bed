// Monitors whether the client's own thread keeps up, because a late client's measurements say little about the server.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kvist/base/time.h"
#include "kvist/loadgen/host_load.h"
#include "kvist/loadgen/service.h"
#include "kvist/net/event_loop.h"

namespace kvist::loadgen {

/// A histogram of delays in constant memory, for the client's own health, not for what it measures. It counts in
/// buckets that grow by 5 %, from 1 us to above one minute. A quantile is a bucket's upper bound, so it is at most 5 %
/// too high and never too low. The maximum is exact. Threads: one.
class DelayHistogram {
 public:
  /// A negative delay counts as 0.
  void record(Duration delay);
  /// The smallest bucket bound that the share q of all delays does not exceed, at most max(); zero if there are no
  /// delays.
  [[nodiscard]] Duration quantile(double q) const;
  [[nodiscard]] Duration max() const { return max_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  static constexpr std::size_t kBuckets = 384;  // 1 us x 1.05^383 = 130 s
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  Duration max_{};
};

/// User and system CPU time of this process so far, in seconds.
[[nodiscard]] double process_cpu_seconds();

/// Records how late a timer of 10 ms fires. After a stall longer than the period, it also records the lateness of the
/// missed ticks (stall - 10 ms, - 20 ms, ...), because otherwise a long stall would count as one late tick. Threads:
/// the loop's.
class LoopMonitor {
 public:
  explicit LoopMonitor(net::EventLoop& loop) : timer_(loop) {}

  /// Resets everything and starts the timer.
  void start();
  /// Stops the timer. load() stays as it is.
  void stop();
  [[nodiscard]] ClientLoad load() const;

  /// Records one tick's lateness, and that of the ticks that were missed.
  static void record_tick(DelayHistogram& delays, Duration late);

 private:
  void arm(TimePoint due);

  [[nodiscard]] ClientLoad measure() const;

  net::Timer timer_;
  DelayHistogram delays_;
  std::uint64_t stalls_ = 0;
  Duration stalled_{};
  bool watching_ = false;
  double cpu_seconds_at_start_ = 0;
  HostLoad host_;
  ClientLoad at_stop_;
};

}  // namespace kvist::loadgen
