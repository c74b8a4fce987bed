// Blocks behind a parent that no event named: placed by the prompts that are under way at the worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event.h"
#include "kvist/kv_index/kv_index.h"

namespace kvist::routing {

/// Who comes late to a worker misses the events of what it holds already, and so the parents of nearly all that
/// follows. But a worker that stores blocks behind such a parent holds what is before it, and where the blocks are what
/// a prompt under way there goes on with, that says what it is. Then the parent has a place in the index, with all
/// before it, until the parent is removed: engines let the end of a prefix go before its beginning. Blocks that fit at
/// several places are left alone, and the answer has the last word: it says how much of its prompt was cached, which is
/// where its first stored block stands. Pure; one thread, the index's writer. Bounded per worker in prefixes and in
/// their blocks; what is beyond stays unknown.
class AdoptedPrefixes {
 public:
  static constexpr std::size_t kMaxPrefixes = 16'384;
  static constexpr std::size_t kMaxBlocks = std::size_t{1} << 20;
  /// Places in prompts that are tried for one event: about a millisecond.
  static constexpr std::size_t kMaxTries = 65'536;

  /// The index outlives it.
  AdoptedPrefixes(kv_index::KvIndex& index, std::size_t workers) : index_(&index), workers_(workers) {}

  struct Prompt {
    RequestId request;
    std::span<const kv::BlockHash> keys;
  };
  struct Place {
    RequestId request;         ///< whose prompt told
    std::uint32_t blocks = 0;  ///< of the prompt, before the event's first
  };
  /// Whether an event could be placed: its parent is unknown, and its tokens say what it holds.
  [[nodiscard]] bool is_orphan(WorkerId worker, const kv::BlockStored& event) const;
  /// Before such an event is applied: finds a place for its parent among the prompts under way.
  [[nodiscard]] std::optional<Place> adopt(WorkerId worker, const kv::BlockStored& event,
                                           std::span<const Prompt> prompts);
  /// Before the event is applied: prefixes end with the names that go.
  void before(WorkerId worker, const kv::BlockRemoved& event);
  /// The place was the wrong one.
  void revoke(WorkerId worker, kv::ExternalHash name);
  /// The worker's blocks have left the index.
  void forget(WorkerId worker) { workers_.at(worker.value()) = {}; }

  /// Of one worker, held now.
  [[nodiscard]] std::size_t prefixes(WorkerId worker) const { return workers_.at(worker.value()).prefixes.size(); }

 private:
  struct Worker {
    FlatMap<kv::ExternalHash, std::vector<kv::BlockHash>> prefixes;  // by the name of their last block
    std::size_t blocks = 0;
  };
  [[nodiscard]] bool adopt(WorkerId id, kv::ExternalHash name, std::span<const kv::BlockHash> prefix);
  [[nodiscard]] bool release(WorkerId id, kv::ExternalHash name);

  kv_index::KvIndex* index_;
  std::vector<Worker> workers_;  // by WorkerId
};

}  // namespace kvist::routing
