// kvist's own KV-aware routing: the least predicted time, for the request and for those beside it.
#pragma once

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Chooses the least of
///   time to first token + a decode step with the request in the batch + what its presence costs the others per step,
/// in milliseconds, all from the candidate's forecast. A worker without a free slot is taken only where none has one.
class KvPolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
};

}  // namespace kvist::routing
