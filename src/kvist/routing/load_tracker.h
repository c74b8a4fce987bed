// What each worker has to do, as far as the router gave it: requests, prompt tokens to compute, blocks in use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/prefix_use.h"

namespace kvist::routing {

/// The load of one worker.
struct WorkerLoad {
  std::uint32_t requests = 0;        ///< in flight
  std::uint64_t prefill_tokens = 0;  ///< uncached prompt tokens of requests without a first token
  std::uint64_t prompt_blocks = 0;   ///< distinct prompt blocks of all requests in flight
  std::uint64_t output_tokens = 0;   ///< generated so far by the requests in flight
  friend bool operator==(const WorkerLoad&, const WorkerLoad&) = default;
};

/// Books and releases load. Owned by the router. Bounded by the requests in flight. Invariant: a worker without
/// requests has a load of zeros.
class LoadTracker {
 public:
  explicit LoadTracker(std::size_t workers) : loads_(workers) {}

  /// Requires that the request is not booked. `uncached_tokens`: prompt tokens that the worker will have to compute.
  void add(RequestId request, WorkerId worker, std::uint64_t uncached_tokens, BlockKeys blocks);
  /// The prompt is computed. Later calls, and those of unknown requests, do nothing; the same below.
  void on_first_token(RequestId request);
  void on_progress(RequestId request, std::uint64_t tokens);
  void remove(RequestId request);
  void prefetch(RequestId request) const { requests_.prefetch(request); }

  [[nodiscard]] const WorkerLoad& load(WorkerId worker) const { return loads_.at(worker.value()); }
  /// depths[w] becomes how many of these blocks (a prompt's, from its beginning) are in use on worker w already.
  void shared_blocks(std::span<const kv::BlockHash> blocks, std::span<std::uint32_t> depths) const {
    prompts_.match(blocks, depths);
  }
  [[nodiscard]] std::size_t requests() const { return requests_.size(); }

 private:
  struct Request {
    WorkerId worker;
    std::uint64_t prefill_tokens = 0;  // 0 after the first token
    std::uint64_t output_tokens = 0;
    BlockKeys blocks;
  };
  std::vector<WorkerLoad> loads_;  // by WorkerId
  PrefixUse prompts_;
  FlatMap<RequestId, Request> requests_;
};

}  // namespace kvist::routing
