// What each worker has to do, as far as the router gave it: requests, prompt tokens to compute, blocks in use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/output_lengths.h"
#include "kvist/routing/prefix_use.h"

namespace kvist::routing {

/// The load of one worker.
struct WorkerLoad {
  std::uint32_t requests = 0;        ///< in flight
  std::uint32_t decoding = 0;        ///< of those, with a first token
  std::uint64_t prefill_tokens = 0;  ///< uncached prompt tokens of requests without a first token
  std::uint64_t prompt_blocks = 0;   ///< distinct prompt blocks of all requests in flight
  std::uint64_t output_tokens = 0;   ///< generated so far by the requests in flight
  std::uint64_t context_tokens = 0;  ///< prompt and output of those decoding: what attention reads in a step
  friend bool operator==(const WorkerLoad&, const WorkerLoad&) = default;
};

/// What a request asks of the worker it goes to.
struct RequestLoad {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t uncached_tokens = 0;  ///< of the prompt: those the worker will have to compute
  BlockKeys blocks = {};
};

/// Books and releases load. Owned by the router. Bounded by the requests in flight. Invariant: a worker without
/// requests has a load of zeros.
class LoadTracker {
 public:
  /// A request under way.
  struct Request {
    WorkerId worker;
    RequestLoad asked;
    std::uint64_t output_tokens = 0;
    bool decoding = false;  ///< the first token is here
  };

  explicit LoadTracker(std::size_t workers) : loads_(workers), progress_(workers) {}

  /// Requires that the request is not booked.
  void add(RequestId request, WorkerId worker, RequestLoad asked);
  /// The prompt is computed. Later calls, and those of unknown requests, do nothing; the same below.
  void on_first_token(RequestId request);
  void on_progress(RequestId request, std::uint64_t tokens);
  void remove(RequestId request);
  void prefetch(RequestId request) const { requests_.prefetch(request); }

  [[nodiscard]] const WorkerLoad& load(WorkerId worker) const { return loads_.at(worker.value()); }
  /// How far the worker's requests have come.
  [[nodiscard]] const OutputProgress& progress(WorkerId worker) const { return progress_.at(worker.value()); }
  /// Null where it is not booked; valid until the next call that changes anything.
  [[nodiscard]] const Request* find(RequestId request) const { return requests_.find(request); }
  /// depths[w] becomes how many of these blocks (a prompt's, from its beginning) are in use on worker w already.
  void shared_blocks(std::span<const kv::BlockHash> blocks, std::span<std::uint32_t> depths) const {
    prompts_.match(blocks, depths);
  }
  /// PrefixUse::deepest_shared() over the prompts in flight.
  [[nodiscard]] PrefixUse::Popularity deepest_shared(std::span<const kv::BlockHash> prompt,
                                                     std::uint32_t prompts) const {
    return prompts_.deepest_shared(prompt, prompts);
  }
  [[nodiscard]] std::size_t requests() const { return requests_.size(); }

 private:
  std::vector<WorkerLoad> loads_;         // by WorkerId
  std::vector<OutputProgress> progress_;  // by WorkerId
  PrefixUse prompts_;
  FlatMap<RequestId, Request> requests_;
};

}  // namespace kvist::routing
