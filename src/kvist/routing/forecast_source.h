// A source that knows more of the workers than a gateway can: the simulation, for mode clairvoyant.
#pragma once

#include <span>

#include "kvist/routing/policy.h"

namespace kvist::routing {

struct RouteQuery;

/// Replaces what the router learned by what is true. The decision itself stays that of mode kv, so that the distance of
/// the two modes is what kv's forecasts cost. Threads: the router's.
class ForecastSource {
 public:
  virtual ~ForecastSource() = default;
  /// Amends the cached tokens, the load and the forecast of each candidate. What it does not know stays the router's.
  virtual void amend(const RouteQuery& query, std::span<Candidate> candidates) = 0;
};

}  // namespace kvist::routing
