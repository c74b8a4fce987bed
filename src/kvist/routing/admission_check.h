// The question whether a request may go to a worker, asked before it is booked there.
#pragma once

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// A request for which every candidate is turned down is not routed (Router::route(), kResourceExhausted). Threads: the
/// router's.
class AdmissionCheck {
 public:
  virtual ~AdmissionCheck() = default;
  /// Requires: the candidate has its forecast.
  [[nodiscard]] virtual bool admits(const Candidate& candidate) = 0;
};

}  // namespace kvist::routing
