// The load that the router gave each worker: requests, prompt tokens to compute, blocks in use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/output_lengths.h"
#include "kvist/routing/prefix_use.h"
#include "kvist/routing/routed_request.h"

namespace kvist::routing {

/// The load of one worker.
struct WorkerLoad {
  std::uint32_t requests = 0;  ///< in flight
  std::uint32_t decoding = 0;  ///< of those, the ones whose first token has come, or must have come (router_unseen.cc)
  std::uint64_t prefill_tokens = 0;  ///< uncached prompt tokens of requests without a first token
  std::uint64_t prompt_blocks = 0;   ///< distinct prompt blocks of all requests in flight
  std::uint64_t output_tokens = 0;   ///< generated so far by the requests in flight
  std::uint64_t context_tokens = 0;  ///< prompt and output tokens of those decoding, which attention reads in each step
  friend bool operator==(const WorkerLoad&, const WorkerLoad&) = default;
};

/// The load of each worker. The router owns it and keeps the requests. Invariant: the load of a worker without requests
/// is zero in all fields. Threads: the router's.
class LoadTracker {
 public:
  explicit LoadTracker(std::size_t workers)
      : loads_(workers), own_blocks_(workers), assumed_(workers), further_choices_(workers), progress_(workers) {}

  /// Adds the request to its worker's load. Requires: the request's worker and prompt are set.
  void add(const RoutedRequest& request);
  /// The prompt is computed. Further calls for the request do nothing. Requires: the request was added. The next three
  /// calls require the same.
  void on_first_token(RoutedRequest& request);
  /// As on_first_token(), but nobody saw it. The first token may be seen later.
  void assume_first_token(RoutedRequest& request);
  void on_progress(RoutedRequest& request, std::uint64_t tokens);
  /// So many requests of the worker, which all decode, have one token more. on_moved() has to follow for those whose
  /// answers have come to another bin.
  void on_run_step(WorkerId worker, std::uint64_t requests);
  void on_moved(WorkerId worker, std::uint64_t from, std::uint64_t to) { progress_[worker.value()].advance(from, to); }
  void remove(const RoutedRequest& request);

  [[nodiscard]] const WorkerLoad& load(WorkerId worker) const { return loads_.at(worker.value()); }
  /// Of the worker's requests that decode, those of which that is only assumed.
  [[nodiscard]] std::uint32_t assumed(WorkerId worker) const { return assumed_.at(worker.value()); }
  /// The sum of RoutedRequest::own_blocks of the worker's requests.
  [[nodiscard]] std::uint64_t own_blocks(WorkerId worker) const { return own_blocks_.at(worker.value()); }
  /// The answers of the worker's requests, each of its choices.
  [[nodiscard]] std::uint32_t answers(WorkerId worker) const {
    return loads_[worker.value()].requests + further_choices_[worker.value()];
  }
  /// How far they are.
  [[nodiscard]] const OutputProgress& progress(WorkerId worker) const { return progress_.at(worker.value()); }
  /// Sets depths[w] to the number of leading blocks of a prompt that requests on worker w use already. Requires:
  /// `depths` has one entry per worker.
  void shared_blocks(std::span<const kv::BlockHash> blocks, std::span<std::uint32_t> depths) const {
    prompts_.match(blocks, depths);
  }
  /// shared_blocks(), to be made side by side with other look-ups.
  [[nodiscard]] PrefixUse::LookUp look_up(std::span<std::uint32_t> depths) const {
    return {.prefixes = &prompts_, .depths = depths};
  }
  /// PrefixUse::deepest_shared() over the prompts in flight.
  [[nodiscard]] PrefixUse::Popularity deepest_shared(std::span<const kv::BlockHash> prompt,
                                                     std::uint32_t prompts) const {
    return prompts_.deepest_shared(prompt, prompts);
  }
  [[nodiscard]] std::size_t requests() const { return requests_; }
  /// Those that wait for their first token.
  [[nodiscard]] std::size_t waiting() const { return waiting_; }

 private:
  void end_wait(const RoutedRequest& request);

  std::vector<WorkerLoad> loads_;               // by WorkerId
  std::vector<std::uint64_t> own_blocks_;       // by WorkerId
  std::vector<std::uint32_t> assumed_;          // by WorkerId
  std::vector<std::uint32_t> further_choices_;  // by WorkerId: of its requests, beside the first of each
  std::vector<OutputProgress> progress_;        // by WorkerId
  PrefixUse prompts_;
  std::size_t requests_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace kvist::routing
