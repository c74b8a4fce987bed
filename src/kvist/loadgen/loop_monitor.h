// Watches whether the client's own thread keeps up: a measurement by a late client says little about the server.
#pragma once

#include "kvist/base/time.h"
#include "kvist/loadgen/delay_histogram.h"
#include "kvist/loadgen/service.h"
#include "kvist/net/event_loop.h"

namespace kvist::loadgen {

/// User and system CPU time of this process so far, in seconds.
[[nodiscard]] double process_cpu_seconds();

/// A timer every 10 ms whose lateness is recorded. A stall longer than the period also records what the ticks it
/// swallowed would have seen (stall - 10 ms, - 20 ms, ...): otherwise one long stall would look like one late tick.
/// Lives on the loop's thread.
class LoopMonitor {
 public:
  explicit LoopMonitor(net::EventLoop& loop) : timer_(loop) {}

  /// Forgets everything and begins to watch.
  void start();
  /// Ends watching; load() stays as it is.
  void stop();
  [[nodiscard]] ClientLoad load() const;

  /// Records one tick's lateness, with the ticks it swallowed.
  static void record_tick(DelayHistogram& delays, Duration late);

 private:
  void arm(TimePoint due);

  net::Timer timer_;
  DelayHistogram delays_;
  bool watching_ = false;
  double cpu_seconds_at_start_ = 0;
  double cpu_seconds_ = 0;  // once stopped
};

}  // namespace kvist::loadgen
