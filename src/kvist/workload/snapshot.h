// The figures of the published method at one instant.
#pragma once

#include <cstdint>
#include <optional>

#include "kvist/base/time.h"

namespace kvist::workload {

/// Quantiles over the window before `at`, rates over the same window. A quantile is nothing if the window has no
/// sample.
struct Snapshot {
  TimePoint at;
  std::optional<double> ttft_p50_ms, ttft_p95_ms;
  std::optional<double> tpot_p50_ms, tpot_p95_ms;
  std::optional<double> itl_p50_ms, itl_p95_ms;
  std::optional<double> latency_p50_ms, latency_p95_ms;
  double output_tokens_per_s = 0;  ///< as they arrive, whatever then becomes of their turn
  double turns_per_s = 0;          ///< that succeeded; the published "Actual RPS (Conversation Starts/s)" counts turns
  double conversation_starts_per_s = 0;
  double failed_per_s = 0;  ///< turns; not in results files
  double error_pct = 0;     ///< failed of those that failed or succeeded in the window
  std::uint32_t in_flight = 0;
};

}  // namespace kvist::workload
