// The question whether a request may go to a worker, asked before it is booked there.
#pragma once

#include <cstdint>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// A request for which every candidate is turned down is not routed (Router::route(), kResourceExhausted). Threads: the
/// router's.
class AdmissionCheck {
 public:
  virtual ~AdmissionCheck() = default;
  /// Requires: the candidate has its forecast.
  [[nodiscard]] virtual bool admits(const Candidate& candidate) = 0;
  /// So many other requests share a prefix that is of use at another worker, too: more than the branches of one
  /// conversation.
  static constexpr std::uint32_t kShared = 4;
  struct TurnedDown {
    std::uint32_t prompt_tokens = 0;
    std::uint32_t shared_tokens = 0;  ///< the first ones, which are those of kShared other requests in flight as well
    std::uint32_t sharers = 0;        ///< how many requests in flight have these
    std::uint32_t copies = 0;         ///< workers that have them in their caches, or compute them just now
    double recomputed = 0;            ///< GhostCache::recomputed()
    bool weighed = false;  ///< the policy weighed the wait at its choice against what others would cost everybody
  };
  /// The router's choice was turned down, and the other candidates come next.
  virtual void on_turned_down(const TurnedDown& /*request*/) {}
};

}  // namespace kvist::routing
