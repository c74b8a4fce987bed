// kvist's own KV-aware routing: the least predicted time, for the request and for those beside it.
#pragma once

#include <optional>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Chooses the least of
///   time to first token + a decode step with the request in the batch + what its presence costs the others per step,
/// in milliseconds, all from the candidate's forecast. The rules around it:
///  - A worker without a free batch slot or KV memory is taken only where none has both.
///  - A worker about to run out of them gets no credit for cache that the others lack: it is never chosen for its cache
///    alone.
///  - Costs within kTieMs are a tie: the deeper cache wins, then the worker with the lower load over time (a
///    conversation that moves will stay), then the lower load now.
///  - A prefix that deserves another copy (Candidate::replicate_tokens) costs nothing where it is missing.
///  - Where the forecasts of the fleet are mostly wrong, the workers take turns until they are right again.
class KvPolicy final : public RoutingPolicy {
 public:
  /// Below what a user or a step can tell apart.
  static constexpr double kTieMs = 10;
  /// Mean of Forecast::error over the candidates that have one, above which forecasts are not used, and below which
  /// they are again. A forecast that is half or double what happens comes to 0.5.
  static constexpr double kErrorToFallBack = 0.6;
  static constexpr double kErrorToReturn = 0.4;

  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
  [[nodiscard]] std::uint64_t state() const override;
  void set_state(std::uint64_t state) override;
  /// Not while the forecasts are mostly wrong: then queueing at a worker is the only sure thing.
  [[nodiscard]] bool may_wait() const override { return !fallen_back_; }
  /// Whether the last choice was by turn, as the forecasts were too wrong.
  [[nodiscard]] bool fell_back() const override { return fallen_back_; }

 private:
  [[nodiscard]] bool forecasts_are_wrong(std::span<const Candidate> candidates) const;

  bool fallen_back_ = false;
  std::optional<WorkerId> last_;  // of the turns
};

}  // namespace kvist::routing
