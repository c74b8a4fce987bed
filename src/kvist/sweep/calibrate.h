// Measures what this machine can drive against the reference server, which runs in a process of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/calibration.h"

namespace kvist::sweep {

struct CalibrateOptions {
  Duration first = std::chrono::milliseconds(50);  ///< the server's: from a request to its first token
  Duration gap = std::chrono::milliseconds(20);    ///< between two tokens
  std::uint32_t tokens = 50;
  Duration measure =
      std::chrono::seconds(2);  ///< of each step, after a ramp of the length of one answer; at least that
  std::uint32_t most_streams = 10'000;
  double error_limit_ms = 1;
  /// Called with each step when it was measured.
  std::function<void(const loadgen::CalibrationStep& step)> on_step = {};
  std::stop_token stop = {};
};

/// Refuses answers that would take too long. The error says how long, and what would be right.
[[nodiscard]] Result<void> check_calibrate_options(const CalibrateOptions& options);

/// Measures what this machine can drive. Blocks for some seconds per step. A step whose error is too large is measured
/// twice, and the better result counts, because other users of the machine disturb a step now and then. Errors: the
/// server does not start or ends; kCancelled.
[[nodiscard]] Result<loadgen::Calibration> calibrate(const CalibrateOptions& options);

}  // namespace kvist::sweep
