// Which worker holds which prefix: the index that the workers' KV events keep up to date.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event.h"
#include "kvist/routing/worker_set.h"

namespace kvist::routing {

/// Why an event was not (or not wholly) taken into the index.
enum class Refusal : std::uint8_t {
  kUnknownParent,  ///< its first block continues a prefix this index does not know
  kBlockSize,      ///< blocks of another size than configured: their tokens can never match a prompt's blocks
  kExtraKeys,      ///< content that tokens alone do not identify (images)
  kMedium,         ///< not in device memory
  kGroup,          ///< of a further KV cache group of a hybrid model: the same tokens again
  kMalformed,      ///< the number of tokens does not fit the number of blocks
  kConflict,       ///< a name that the worker used for other tokens before
  kCapacity,       ///< more blocks than one worker can have
};
inline constexpr std::size_t kRefusals = 8;
/// Lower-case name, for metrics: "unknown_parent".
[[nodiscard]] std::string_view to_string(Refusal refusal);

/// Cumulative counts of one worker, for metrics.
struct KvIndexCounters {
  std::uint64_t stored_blocks = 0;
  std::uint64_t removed_blocks = 0;
  std::uint64_t clears = 0;
  std::uint64_t unknown_removals = 0;              ///< removed blocks whose store was refused or never seen
  std::array<std::uint64_t, kRefusals> refused{};  ///< events, by Refusal
};

/// Prefix index over all workers. Names of the workers' own are opaque, so each block's key is recomputed from its
/// tokens: two workers that hash differently still meet in one key, and a prompt's keys can be looked up directly.
///
/// Threads: none of its own; one thread writes and reads. Memory: one entry per block a worker holds plus one per
/// distinct key; both go when the blocks are removed. Invariants:
///  - a worker is in the set of a key exactly while it holds at least one copy under at least one name;
///  - a refused event changes nothing (kConflict: nothing from the offending block on), so the index may know less than
///    the worker holds, never more.
class KvIndex {
 public:
  struct Options {
    std::string model;
    std::uint32_t block_size = 32;                 ///< tokens
    std::size_t max_blocks_per_worker = 4U << 20;  ///< a worker that never removes cannot fill the gateway's memory
  };

  explicit KvIndex(Options options);

  /// Takes one event of a worker in; the reason where it was refused.
  std::optional<Refusal> apply(WorkerId worker, const kv::KvEvent& event);
  /// Has the processor fetch what apply() will need of this event: a batch touches many places of large tables.
  void prefetch(WorkerId worker, const kv::KvEvent& event) const;
  /// Forgets all blocks of a worker.
  void clear(WorkerId worker);

  /// depths[w] becomes the number of leading blocks of `hashes` that worker w holds; 0 for workers never heard of.
  /// Workers beyond depths.size() are left out.
  void match(std::span<const kv::BlockHash> hashes, std::span<std::uint32_t> depths) const;

  /// Distinct block names of one worker.
  [[nodiscard]] std::size_t worker_blocks(WorkerId worker) const;
  /// Distinct keys over all workers.
  [[nodiscard]] std::size_t keys() const { return holders_.size(); }
  [[nodiscard]] const KvIndexCounters& counters(WorkerId worker) const;
  [[nodiscard]] std::uint32_t block_size() const { return options_.block_size; }

 private:
  struct NamedBlock {
    kv::BlockHash key;
    std::uint32_t copies = 0;  // physical copies under this name
  };
  struct Worker {
    FlatMap<kv::ExternalHash, NamedBlock> blocks;
    // Keys that the worker holds under more than one name (a salt it does not tell us of): names beyond the first.
    FlatMap<kv::BlockHash, std::uint32_t> further_names;
    KvIndexCounters counters;
  };

  std::optional<Refusal> store(WorkerId id, Worker& worker, const kv::BlockStored& event);
  std::optional<Refusal> remove(WorkerId id, Worker& worker, const kv::BlockRemoved& event);
  [[nodiscard]] std::optional<Refusal> check(const Worker& worker, const kv::BlockStored& event,
                                             const NamedBlock* parent) const;
  [[nodiscard]] bool add_copy(WorkerId id, Worker& worker, kv::ExternalHash name, kv::BlockHash key);
  void drop_name(WorkerId id, Worker& worker, kv::BlockHash key);
  Worker& worker_at(WorkerId id);

  Options options_;
  FlatMap<kv::BlockHash, WorkerSet> holders_;
  std::vector<Worker> workers_;  // by WorkerId
};

}  // namespace kvist::routing
