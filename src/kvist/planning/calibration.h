// How far a deployment's model of time is from what was recorded of it, and the factors that bring it there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/planning/traffic_replay.h"

namespace kvist::planning {

/// Factors on a fleet's times. There are three, because a record tells no more: on what every step takes, on what a
/// prompt token takes beyond that, and on what a request loses before its engine sees it.
struct Calibration {
  double step = 1;     ///< on all step times, prefill among them
  double prefill = 1;  ///< on the time of prompt tokens beside that
  Duration way_in{};   ///< added to every request's

  /// The situation with these times. For a worker with a profile, the factor on prompt tokens is on its matrix
  /// products.
  [[nodiscard]] Result<Situation> applied_to(Situation situation) const;
};

struct CalibrationOptions {
  std::uint32_t seeds = 2;
  unsigned threads = 0;  ///< 0: one per core; changes nothing but the time
};

/// The factors with which the situation's simulation comes nearest to what was observed of these requests: quantiles of
/// TTFT, TPOT and latency, by least squares of their relative deviations. Errors: what replay() says; no streamed
/// answer among the requests.
[[nodiscard]] Result<Calibration> calibrate(const workload::RecordedTraffic& traffic, const Situation& situation,
                                            const Places& places, const CalibrationOptions& options);

}  // namespace kvist::planning
