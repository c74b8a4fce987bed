// kvist's own KV-aware routing: the least predicted time, for the request and for those beside it.
#pragma once

#include <optional>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Chooses the least of
///   time to first token + its wait behind other prompts once more
///   + 5 x (a decode step with the request in the batch + what its presence costs all others per step)
/// in milliseconds, all from the candidate's forecast. The two weights are no currency: an answer takes hundreds of
/// steps, so counting all would give every home away for a slightly smaller batch, and counting one lets batches grow
/// apart where prefill is dear; a wait behind others is what the tail of TTFT is made of. Both were chosen
/// in virtual time, between 1 and 50 and between 1 and 10, as what loses least over the published deployment (which
/// hardly cares), prompts that nobody shares (more of the first costs TTFT p95), too little KV memory (the same) and
/// engines with cheap steps (less of it costs throughput). Where every worker is full, both are 1: what counts then is
/// the wait for a slot, and the cache that shortens it. The rules around it:
///  - A worker without a free batch slot or KV memory is taken only where none has both.
///  - A worker about to run out of them gets no credit for cache that the others lack: it is never chosen for its cache
///    alone.
///  - Costs within a part of a step are a tie: the deeper cache wins, then the worker with the lower load over time (a
///    conversation that moves will stay), then the lower load now.
///  - A prefix that deserves another copy (Candidate::replicate_tokens) costs nothing where it is missing.
///  - Where the forecasts of the fleet are mostly wrong, the workers take turns until they are right again.
class KvPolicy final : public RoutingPolicy {
 public:
  static constexpr double kStepsThatCount = 5;
  static constexpr double kQueueWeight = 2;  // one of them in the time to first token itself
  /// Part of the best worker's decode step below which costs are a tie: when in a step a request comes is chance.
  static constexpr double kTieSteps = 0.4;
  /// Mean of Forecast::error over the candidates that have one, above which forecasts are not used, and below which
  /// they are again. A forecast that is half or double what happens comes to 0.5; fast engines, whose first tokens are
  /// a matter of where in a step a request comes, were seen above 0.6 in good order.
  static constexpr double kErrorToFallBack = 0.9;
  static constexpr double kErrorToReturn = 0.7;

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
