// How many workers a gateway says that there should be.
#pragma once

#include "kvist/base/time.h"

namespace kvist::spec {

/// What kvist_gateway_workers_wanted follows from (dispatch/fleet_demand.h).
struct ScalingSpec {
  /// The share of a worker that is to be in use: of its slots, its KV memory, and its time for prefill.
  double utilisation = 0.7;
  Duration window = std::chrono::seconds(30);  ///< time constant of the means; nothing is said before it is over

  bool operator==(const ScalingSpec&) const = default;
};

}  // namespace kvist::spec
