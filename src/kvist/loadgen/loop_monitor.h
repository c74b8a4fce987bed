// Monitors whether the client's own thread keeps up, because a late client's measurements say little about the server.
#pragma once

#include <cstdint>

#include "kvist/base/time.h"
#include "kvist/loadgen/delay_histogram.h"
#include "kvist/loadgen/host_load.h"
#include "kvist/loadgen/pause_watch.h"
#include "kvist/loadgen/service.h"
#include "kvist/net/event_loop.h"

namespace kvist::loadgen {

/// User and system CPU time of this process so far, in seconds.
[[nodiscard]] double process_cpu_seconds();

/// Records how late a timer of 10 ms fires. After a stall longer than the period, it also records the lateness of the
/// missed ticks (stall - 10 ms, - 20 ms, ...), because otherwise a long stall would count as one late tick. With
/// `watches_pauses`, a thread of its own measures the processors' pauses meanwhile. Threads: the loop's.
class LoopMonitor {
 public:
  LoopMonitor(net::EventLoop& loop, bool watches_pauses) : timer_(loop), watches_pauses_(watches_pauses) {}

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
  const bool watches_pauses_;
  PauseWatch pauses_;
  DelayHistogram delays_;
  std::uint64_t stalls_ = 0;
  Duration stalled_{};
  bool watching_ = false;
  double cpu_seconds_at_start_ = 0;
  HostLoad host_;
  ClientLoad at_stop_;
};

}  // namespace kvist::loadgen
