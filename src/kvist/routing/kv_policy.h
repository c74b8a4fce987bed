// kvist's own KV-aware routing: the least predicted time, for the request and for those beside it.
#pragma once

#include <optional>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Chooses the least of
///   time to first token + 4 x its wait behind other prompts + 5 x F x its prefill on an average worker
///   + 1/20 x (its answer's decode steps with it in the batch
///             + by how much it delays those who decode there: by a longer step until they end, which is half an answer
///               away, and by its prefill while it is computed)
/// in milliseconds, all from the candidate's forecast. F is how many requests per worker of the fleet wait for their
/// first token and have a slot: while they are many, prefill is what everybody waits for, so that a cached prefix is
/// worth its prefill to each of them and to those who come until the queues are gone; while nobody waits it is worth
/// what it saves the request itself. Delays are summed over everybody, so that a home is given up
/// for a smaller batch only where the cache is worth less than that, whatever an engine's steps, prefill and answers
/// take. A first token is what people wait for, hence the share; a wait behind others is what the tail of TTFT is made
/// of, hence its weight. Both were chosen in virtual time over the published deployment, prompts that nobody shares,
/// too little KV memory, and engines with short steps and short answers: shares of 1/50 to 1/10 and weights of 2 to 8
/// come out alike on most, a smaller share costs throughput with short steps, a smaller weight costs TTFT p95 with
/// unshared prompts. With the weight of F, 5, come 2 (long
/// prompts wait half as long again) and 10 (a little better in overload, a little worse below). The rules around it:
///  - A worker whose batch slots are all taken is taken only where no worker has room. (One whose KV memory is short is
///    not: memory comes back in parts, and the forecast says when.)
///  - A worker about to run out of slots or KV memory gets no credit for cache that the others lack: it is never chosen
///  for its cache
///    alone.
///  - Of a worker with fewer requests than the cheapest one a part of the cost is not believed, the more the less was
///    seen of it of late: so one that was thought slow gets a request now and then, which tells.
///  - Costs within a part of a step are a tie: the deeper cache wins, then the worker with the lower load over time (a
///    conversation that moves will stay), then the lower load now.
///  - A prefix that deserves another copy (Candidate::replicate_tokens) costs nothing where it is missing.
///  - Where the forecasts of the fleet are mostly wrong, the workers take turns until they are right again.
class KvPolicy final : public RoutingPolicy {
 public:
  static constexpr double kAnswerShare = 0.05;
  static constexpr double kQueueWeight = 5;  ///< one of them in the time to first token itself
  static constexpr double kOccupation = 5;   ///< of prefill, per request that waits for its own
  /// Part of the best worker's decode step below which costs are a tie: when in a step a request comes is chance.
  static constexpr double kTieSteps = 0.4;
  /// Share of its cost that a worker may be wrongly blamed with of which nothing was seen of late.
  static constexpr double kDoubt = 0.5;
  /// Mean of Forecast::error over the candidates that have one, above which forecasts are not used, and below which
  /// they are again. A forecast that is half or double what happens comes to 0.5; fast engines, whose first tokens are
  /// a matter of where in a step a request comes, were seen above 0.6 in good order.
  static constexpr double kErrorToFallBack = 0.9;
  static constexpr double kErrorToReturn = 0.7;

  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
  [[nodiscard]] std::uint64_t state() const override;
  void set_state(std::uint64_t state) override;
  /// Not while the forecasts are mostly wrong: then queueing at a worker is the only sure thing.
  /// Whether the last choice was by turn, as the forecasts were too wrong.
  [[nodiscard]] bool fell_back() const override { return fallen_back_; }

 private:
  [[nodiscard]] bool forecasts_are_wrong(std::span<const Candidate> candidates) const;

  bool fallen_back_ = false;
  std::optional<WorkerId> last_;  // of the turns
};

}  // namespace kvist::routing
