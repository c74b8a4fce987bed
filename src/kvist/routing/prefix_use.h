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

/// The block hashes of a prompt's complete blocks, computed once and shared by all who need them. Null: there are none.
using BlockKeys = std::shared_ptr<const std::vector<kv::BlockHash>>;
[[nodiscard]] inline std::span<const kv::BlockHash> view(const BlockKeys& keys) {
  return keys ? std::span<const kv::BlockHash>(*keys) : std::span<const kv::BlockHash>();
}

/// A radix tree over the prompts in flight. A booking costs a step per node and a comparison of memory. Edges are
/// compared block by block although hashes are chained: a client that chooses its token ids can make the hashes of two
/// prompts differ in the middle and agree behind it. Memory: at most two nodes per booking, each of which keeps the
/// hashes of a prompt that is no longer than any that runs through it. Threads: one. Invariants: a worker is in a node
/// exactly while a prompt that is booked on it runs through the node; a node without users is removed; every user of a
/// child is a user of its parent; a parent with one child has a user that the child does not have (otherwise the two
/// would be one node).
class PrefixUse {
 public:
  static constexpr std::size_t kAll = static_cast<std::size_t>(-1);

  /// Books a prompt on a worker, or its first `blocks`. Returns how many of them no other booking on the worker has.
  std::uint64_t add(WorkerId worker, const BlockKeys& prompt, std::size_t blocks = kAll);
  /// The same for a prompt that waits for its first token, until end_wait().
  std::uint64_t add_waiting(WorkerId worker, const BlockKeys& prompt);
  /// Requires: the prompt is booked, as one that waits.
  void end_wait(const BlockKeys& prompt);
  /// Takes a booking back. Returns how many of its blocks no other booking on the worker has. Requires: it was booked,
  /// with as many blocks.
  std::uint64_t remove(WorkerId worker, const BlockKeys& prompt, std::size_t blocks = kAll);
  /// depths[w] becomes how many leading blocks of a prompt are in use on worker w; workers beyond depths.size() are
  /// left out.
  void match(std::span<const kv::BlockHash> prompt, std::span<std::uint32_t> depths) const {
    const LookUp one{.prefixes = this, .depths = depths};
    match(prompt, {&one, 1});
  }
  /// match() of each, side by side: a look-up mostly waits for memory, and so they wait together.
  struct LookUp {
    const PrefixUse* prefixes = nullptr;
    std::span<std::uint32_t> depths;
  };
  static void match(std::span<const kv::BlockHash> prompt, std::span<const LookUp> look_ups);
  /// No more of them can be made side by side.
  static constexpr std::size_t kMostLookUps = 4;

  /// The nodes of the tree, counted one by one.
  [[nodiscard]] std::size_t nodes() const { return nodes_below(roots_); }

  /// How many prompts in flight, on all workers together, begin with the first `blocks` blocks of a given prompt.
  struct Popularity {
    std::uint32_t blocks = 0;
    std::uint32_t prompts = 0;
    std::uint32_t waiting = 0;  ///< of these, those that wait for their first token
  };
  /// The deepest prefix of `prompt` that at least `prompts` prompts in flight share; {0, 0} where there is none.
  [[nodiscard]] Popularity deepest_shared(std::span<const kv::BlockHash> prompt, std::uint32_t prompts) const;

 private:
  struct Node;
  class Walk;
  // By the first block of their edge. Clients choose the tokens of blocks, and so their hashes.
  using Children = FlatMap<kv::BlockHash, std::unique_ptr<Node>, RandomSpread>;
  struct Node {
    BlockKeys keys;  // the edge is keys[begin .. end); no prompt that runs through this node has fewer
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    WorkerSet workers;  // those of `users`
    std::vector<std::pair<WorkerId, std::uint32_t>>
        users;                  // number of prompts that run through this node per worker, by worker
    std::uint32_t prompts = 0;  // the sum over all workers
    std::uint32_t waiting = 0;  // of these
    Children children;

    [[nodiscard]] std::span<const kv::BlockHash> edge() const { return view(keys).subspan(begin, end - begin); }
    /// Returns whether the prompt is the worker's first in this node; remove_user() whether it was the last.
    bool add_user(WorkerId worker);
    bool remove_user(WorkerId worker);
  };
  template <class Visit>
  void for_each_node(const BlockKeys& prompt, Visit visit);
  [[nodiscard]] static std::size_t common(std::span<const kv::BlockHash> a, std::span<const kv::BlockHash> b);
  static void split(std::unique_ptr<Node>& node, std::size_t at);
  static void merge_only_child(Node& node);
  [[nodiscard]] static std::size_t nodes_below(const Children& children);

  Children roots_;
};

}  // namespace kvist::routing
