// kvist's own KV-aware routing: the least predicted time, for the request and for the others on its worker.
#pragma once

#include <optional>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Chooses the candidate with the least cost
///   time to first token + 4 x its wait behind other prompts + 5 x F x its prefill on an average worker
///   + (1 + 5 x F) x the prefill of what it displaces
///   + 1/20 x (its answer's decode steps with it in the batch
///             + by how much it delays those who decode there: by a longer step until they end, which is half an answer
///               away, and by its prefill while it is computed)
/// in milliseconds, all from the candidate's forecast. F is the number of requests that wait for their first token and
/// have a slot, per worker of the fleet. While F is large, prefill is what every request waits for, so a cached prefix
/// is worth its prefill to each of them and to those that come until the queues are empty. While F is zero, a cached
/// prefix is worth what it saves the request itself.
///
/// A prompt displaces cached prefixes where the worker's memory is full of such as are used again and again. They will
/// have to be computed anew, so that their prefill counts like the request's own (ReusedPrefixes). Without this term
/// too many long conversations stay at one worker: each return evicts another one's cache.
///
/// Delays are summed over all requests, so that a request leaves the worker with its cache for a smaller batch only if
/// that delays them less, however long the engine's steps, prefills and answers are. A share of 1/20 is used because
/// users wait for a first token more than for the rest; waits behind others have a weight because they make the tail of
/// TTFT. Both were chosen in virtual time over the published deployment, prompts that nobody shares, too little KV
/// memory, and engines with short steps and short answers: shares of 1/50 to 1/10 and weights of 2 to 8 give about the
/// same in most cases, a smaller share costs throughput with short steps, a smaller weight costs TTFT p95 with unshared
/// prompts. The weight of F, 5, was compared with 2 (long prompts wait half as long again) and 10 (a little better in
/// overload, a little worse below).
///
/// Further rules:
///  - A wait for a batch slot counts 60 times. With long answers a worker without a free slot is therefore left as long
///    as another one has a slot. With answers of a few tokens a slot is free after some steps, and to compute a long
///    prompt a second time costs more than that. To exclude such a worker, as an earlier version did, kept a fleet that
///    served short answers from large prompts busy with copies for minutes. Weights of 5 to 60 give about the same.
///  - A wait for KV memory counts 60 times as long as another worker has room. While a request waits, the cache that it
///    came for is evicted for those before it, and so is that of everyone who waits behind it; a worker that computes
///    the prompts of all its conversations anew is slower from then on, by far more than the forecast says. With a
///    weight of 20, agents whose contexts fill the memory waited three times as long in the tail of TTFT. Weights
///    of 40 to 100 give about the same; one of 1,000 makes requests leave too early. If no worker has room, such a wait
///    counts once, because memory is freed in parts and the forecast says when.
///  - A worker that is about to run out of slots or KV memory gets no credit for cached tokens that the other workers
///    lack, so that it is never chosen for its cache alone.
///  - The cost of a worker with fewer requests than the cheapest one counts less, the less was observed of the worker
///    recently. So a worker that counts as slow is tried now and then, which shows whether it is.
///  - Costs that differ by less than a part of a step are a tie. The deeper cache wins, then the lower mean load (a
///    conversation that moves will stay), then the lower load now.
///  - A prefix that should have another copy (Candidate::replicate_tokens) costs nothing where it is missing.
///  - While the forecasts of the fleet are mostly wrong, the workers take turns.
class KvPolicy final : public RoutingPolicy {
 public:
  static constexpr double kAnswerShare = 0.05;
  static constexpr double kQueueWeight = 5;  ///< one part of it is in the time to first token itself
  static constexpr double kRoomWeight = 60;  ///< of a wait for a slot or memory; one part is in the time to first token
  static constexpr double kOccupation = 5;   ///< weight of prefill per waiting request, the 5 above
  /// Costs within this part of the best worker's decode step are a tie, because it is chance at which moment of a step
  /// a request arrives.
  static constexpr double kTieSteps = 0.4;
  /// By this share the cost of a worker that was not observed recently may be too high.
  static constexpr double kDoubt = 0.5;
  /// Forecasts are not used while the mean of Forecast::error, over the candidates that have one, is above the first
  /// bound, and are used again below the second. A forecast of half or double the observed time has an error of 0.5.
  /// Fast engines, whose time to first token depends on the moment within a step at which a request arrives, had errors
  /// above 0.6 without any fault.
  static constexpr double kErrorToFallBack = 0.9;
  static constexpr double kErrorToReturn = 0.7;

  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
  [[nodiscard]] std::uint64_t state() const override;
  void set_state(std::uint64_t state) override;
  /// Whether the last choice was made by turns, because the forecasts were too wrong.
  [[nodiscard]] bool fell_back() const override { return fallen_back_; }

 private:
  [[nodiscard]] bool forecasts_are_wrong(std::span<const Candidate> candidates) const;

  bool fallen_back_ = false;
  std::optional<WorkerId> last_;  // the worker that had the last turn
};

}  // namespace kvist::routing
