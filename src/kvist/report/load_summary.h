// A run of `kvist loadgen` on the console.
#pragma once

#include <string>

#include "kvist/report/load_run.h"
#include "kvist/workload/snapshot.h"

namespace kvist::report {

/// The summary, several lines: turns, rates, percentiles with their intervals, both latencies in an open loop, the law
/// of the arrivals, the client's health.
[[nodiscard]] std::string load_summary(const LoadRun& run, const LoadFigures& figures);

/// The state of a run under way.
struct LoadProgress {
  Duration elapsed{};
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  workload::Snapshot window;  ///< of the last seconds
  std::optional<double> itl_p50_ms, itl_p95_ms;
};
/// One line: "  12s  32 in flight, 410 done, 0 failed, 34.1 turns/s, 9,850 tokens/s, TTFT p50 12.1 p95 20.3 ms, ...".
[[nodiscard]] std::string progress_line(const LoadProgress& progress);

}  // namespace kvist::report
