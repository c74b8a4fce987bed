// When every worker is full: give a request to one and let it queue there, or keep it until a slot frees anywhere?
#pragma once

#include <cstddef>
#include <span>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// What keeping a request has to be better by.
struct WaitOptions {
  /// From a slot that frees to the request in it: the word of it, the way to the worker, the intake of its engine. A
  /// request that queues at the worker has all that behind it.
  double hand_over_ms = 100;
  /// The share of the committed time that has to be won on top, as both are forecasts and only a commit is sure.
  double margin = 0.2;
};

/// Expected times to first token, milliseconds from now.
struct WaitOrCommit {
  double commit_ms = 0;  ///< at the chosen worker, in its queue
  double wait_ms = 0;    ///< here, then at the first worker with a slot; infinite where no slot is ever due
  bool wait = false;
};

/// A slot that frees at a worker goes to those that queue there first. With r(w) ends per millisecond and q(w) queued
/// at worker w, the n-th waiting here gets a slot at the time t with sum over w of max(0, r(w) t - q(w)) = n: pooled
/// waiting, the gain of one queue before many servers. `ahead` wait here already. Never says "wait" while the chosen
/// one has a slot, or where the slots of a worker are not known.
[[nodiscard]] WaitOrCommit wait_or_commit(std::span<const Candidate> candidates, std::size_t chosen, std::size_t ahead,
                                          const WaitOptions& options);

}  // namespace kvist::routing
