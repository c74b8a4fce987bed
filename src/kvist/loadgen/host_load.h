// What the system says of the processors that a thread did not get.
#pragma once

#include <optional>
#include <string_view>

#include "kvist/base/time.h"

namespace kvist::loadgen {

/// The time of all processors since the start of the system, in ticks of its clock.
struct CpuTicks {
  double all = 0;
  double stolen = 0;  ///< the part that a hypervisor gave to others
};

/// How long the thread was ready to run and waited for a processor, from the text of /proc/thread-self/schedstat.
[[nodiscard]] std::optional<Duration> parse_run_queue_time(std::string_view schedstat);
/// The ticks of all processors, from the text of /proc/stat.
[[nodiscard]] std::optional<CpuTicks> parse_cpu_ticks(std::string_view stat);

/// What a hypervisor gave to others of the time of all processors since the start of the system, in steps of one tick.
/// Nothing: not known here.
[[nodiscard]] std::optional<Duration> stolen_time();
/// The system's tick.
[[nodiscard]] Duration clock_tick();

/// Both figures from one instant on. What this system does not tell stays unknown. Threads: the one whose load is read.
class HostLoad {
 public:
  void start();
  /// Seconds of the thread in the run queue since start().
  [[nodiscard]] std::optional<double> run_queue_seconds() const;
  /// Share of the processors' time since start(), 0 to 1.
  [[nodiscard]] std::optional<double> steal_share() const;

 private:
  std::optional<Duration> run_queue_before_;
  std::optional<CpuTicks> ticks_before_;
};

}  // namespace kvist::loadgen
