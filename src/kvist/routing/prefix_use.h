// Which prefixes the requests in flight use, and on which workers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/worker_set.h"

namespace kvist::routing {

/// Names of a prompt's complete blocks, computed once and shared by all who need them; null: none.
using BlockKeys = std::shared_ptr<const std::vector<kv::BlockHash>>;
[[nodiscard]] inline std::span<const kv::BlockHash> view(const BlockKeys& keys) {
  return keys ? std::span<const kv::BlockHash>(*keys) : std::span<const kv::BlockHash>();
}

/// A radix tree over the prompts in flight. Names are chained hashes: two prompts with the same name at one position
/// have the same prefix up to there, so an edge is compared by bisection and a booking costs a few steps, not one per
/// block. One thread. Memory: at most two nodes per prompt in flight. Invariants: a worker is in a node exactly while a
/// prompt booked on it runs through; a node without users is gone; children have no users that their parent lacks.
class PrefixUse {
 public:
  /// Books a prompt on a worker; how many of its blocks no other prompt on the worker uses.
  std::uint64_t add(WorkerId worker, const BlockKeys& prompt);
  /// Takes a booking back; how many of its blocks no other prompt on the worker uses. Requires that it was booked.
  std::uint64_t remove(WorkerId worker, const BlockKeys& prompt);
  /// depths[w] becomes how many leading blocks of a prompt are in use on worker w; workers beyond depths.size() are
  /// left out.
  void match(std::span<const kv::BlockHash> prompt, std::span<std::uint32_t> depths) const;

  /// So many prompts in flight, on all workers, begin with the first `blocks` of the one asked for.
  struct Popularity {
    std::uint32_t blocks = 0;
    std::uint32_t prompts = 0;
  };
  /// The deepest prefix of `prompt` that at least `prompts` prompts in flight share; {0, 0} where there is none.
  [[nodiscard]] Popularity deepest_shared(std::span<const kv::BlockHash> prompt, std::uint32_t prompts) const;

 private:
  struct Node;
  using Children = FlatMap<kv::BlockHash, std::unique_ptr<Node>>;  // by the first block of their edge
  struct Node {
    BlockKeys keys;  // the edge is keys[begin .. end)
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    WorkerSet workers;                                      // those of `users`
    std::vector<std::pair<WorkerId, std::uint32_t>> users;  // prompts per worker that run through, by worker
    std::uint32_t prompts = 0;                              // those of all workers
    Children children;

    [[nodiscard]] std::span<const kv::BlockHash> edge() const { return view(keys).subspan(begin, end - begin); }
    /// Whether it is the worker's first, or was its last.
    bool add_user(WorkerId worker);
    bool remove_user(WorkerId worker);
  };
  [[nodiscard]] static std::size_t common(std::span<const kv::BlockHash> a, std::span<const kv::BlockHash> b);
  static void split(std::unique_ptr<Node>& node, std::size_t at);

  Children roots_;
};

}  // namespace kvist::routing
