// What the system says of the processors that a thread did not get.
#pragma once

#include <optional>
#include <string_view>

#include "kvist/base/time.h"

namespace kvist::loadgen {

/// Of all processors since the start of the system, in ticks of its clock.
struct CpuTicks {
  double all = 0;
  double stolen = 0;  ///< that a hypervisor gave to others
};

/// From the text of /proc/thread-self/schedstat: how long the thread was ready to run and waited for a processor.
[[nodiscard]] std::optional<Duration> parse_run_queue_time(std::string_view schedstat);
/// From the text of /proc/stat.
[[nodiscard]] std::optional<CpuTicks> parse_cpu_ticks(std::string_view stat);

/// Both, from one instant on. What this system does not tell stays unknown. Threads: one, the one that is asked about.
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
