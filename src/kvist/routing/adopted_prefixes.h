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
#include "kvist/kv/kv_event_view.h"
#include "kvist/kv_index/kv_index.h"

namespace kvist::routing {

/// A subscriber that comes late misses the events of what a worker holds already, and so does not know the parents of
/// nearly all that follows. But a worker that stores blocks behind an unknown parent holds the whole prefix up to that
/// parent, and if the blocks continue a prompt that is under way at the worker, the prompt tells which prefix that is.
/// Then the parent and all blocks before it are put into the index, until the parent is removed (engines evict the end
/// of a prefix before its beginning). Blocks that fit at several places are not placed. The answer settles it: the
/// first block that a request stores is the one behind the cached tokens that its usage reports. Threads: the index's
/// writer. Bounded per worker in the number of prefixes and of their blocks; what exceeds the bound stays unknown.
class AdoptedPrefixes {
 public:
  static constexpr std::size_t kMaxPrefixes = 16'384;
  static constexpr std::size_t kMaxBlocks = std::size_t{1} << 20;
  /// Places in prompts that are tried for one event: about a millisecond.
  static constexpr std::size_t kMaxTries = 65'536;

  /// Requires: the index outlives this object.
  AdoptedPrefixes(kv_index::KvIndex& index, std::size_t workers) : index_(&index), workers_(workers) {}

  struct Prompt {
    RequestId request;
    std::span<const kv::BlockHash> keys;
  };
  struct Place {
    RequestId request;         ///< the request whose prompt gave the place
    std::uint32_t blocks = 0;  ///< of the prompt, before the event's first block
  };
  /// Whether adopt() can place an event: it stores, its parent is unknown, and its tokens identify its blocks.
  [[nodiscard]] bool is_orphan(WorkerId worker, const kv::KvEventView& event) const;
  /// Finds a place for such an event's parent among the prompts under way. To be called before the event is applied.
  [[nodiscard]] std::optional<Place> adopt(WorkerId worker, const kv::KvEventView& event,
                                           std::span<const Prompt> prompts);
  /// Releases the prefixes whose last block an event removes. To be called before the event is applied.
  void before(WorkerId worker, const kv::KvEventView& event);
  /// Takes an adoption back, because the place was wrong.
  void revoke(WorkerId worker, kv::ExternalHash name);
  /// The worker's blocks have left the index.
  void forget(WorkerId worker) { workers_.at(worker.value()) = {}; }

  /// The number of adopted prefixes of a worker.
  [[nodiscard]] std::size_t prefixes(WorkerId worker) const { return workers_.at(worker.value()).prefixes.size(); }

 private:
  struct Worker {
    // By the external hash of their last block.
    FlatMap<kv::ExternalHash, std::vector<kv::BlockHash>, RandomSpread> prefixes;
    std::size_t blocks = 0;
  };
  [[nodiscard]] bool adopt(WorkerId id, kv::ExternalHash name, std::span<const kv::BlockHash> prefix);
  [[nodiscard]] bool release(WorkerId id, kv::ExternalHash name);

  kv_index::KvIndex* index_;
  std::vector<Worker> workers_;  // by WorkerId
};

}  // namespace kvist::routing
