// Which worker holds which prefix: the index that the workers' KV events keep up to date.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event.h"
#include "kvist/kv/kv_event_view.h"

namespace kvist::kv_index {

/// Why an event, or the rest of one, was not taken into the index.
enum class Refusal : std::uint8_t {
  kUnknownParent,  ///< its first block continues a prefix this index does not know
  kBlockSize,      ///< blocks of another size than configured: their tokens can never match a prompt's blocks
  kExtraKeys,      ///< content that tokens alone do not identify (images)
  kMedium,         ///< not in device memory, of a worker for which other media are not indexed (Options::workers)
  kGroup,          ///< of a further KV cache group of a hybrid model: the same tokens again
  kMalformed,      ///< the number of tokens does not fit the number of blocks
  kConflict,       ///< a name that the worker used for other tokens before
  kCapacity,       ///< more blocks than one worker can have, or than the byte budget allows even after eviction
  kUnknownBlock,   ///< names a block without its tokens that the worker does not hold; its other blocks are taken
};
inline constexpr std::size_t kRefusals = 9;
/// Lower-case name, for metrics: "unknown_parent".
[[nodiscard]] std::string_view to_string(Refusal refusal);

/// Cumulative counts of one worker, for metrics.
struct KvIndexCounters {
  std::uint64_t stored_blocks = 0;
  std::uint64_t removed_blocks = 0;
  std::uint64_t clears = 0;
  std::uint64_t unknown_removals = 0;              ///< removed blocks whose store was refused or never seen
  std::array<std::uint64_t, kRefusals> refused{};  ///< events, by Refusal
  std::uint64_t evicted_blocks = 0;                ///< forgotten to stay within the byte budget
};

/// A worker that holds the first `blocks` blocks of a prompt, at least one, each in some medium.
struct WorkerMatch {
  WorkerId worker;
  std::uint32_t blocks = 0;
  friend bool operator==(const WorkerMatch&, const WorkerMatch&) = default;
};

/// The media below device memory: kv::Medium without kDevice, in its order.
inline constexpr std::size_t kLowerTiers = 3;
/// How many blocks of a WorkerMatch the worker holds in host memory, on disk and remotely, each counted in its best
/// medium.
struct LowerTierMatch {
  WorkerId worker;
  std::array<std::uint32_t, kLowerTiers> blocks{};
  friend bool operator==(const LowerTierMatch&, const LowerTierMatch&) = default;
};

/// Prefix index over all workers. Workers name blocks by hashes of their own, which are opaque here. Therefore each
/// block's key, its block hash, is recomputed from its tokens: two workers that hash differently still have the same
/// keys, and the keys of a prompt can be looked up directly. Within a process a worker's word can be taken for it
/// (kv::BlockStored::names_are_keys).
///
/// A worker may hold a block in several media at once. For each medium below device memory it counts as a holder of its
/// own, with names of its own, so a block that is removed in one medium stays held in the others. If an event refers to
/// a block by name (to a parent, or to a block whose tokens it does not repeat), the name is looked up in all media of
/// the worker. A fleet without such events has none of these holders, and its memory is the same as without them.
///
/// Threads: one thread writes, and may call match() at any time. Each further thread that looks prompts up has a
/// Reader. Invariants:
///  - a worker is in the set of a key exactly while it holds at least one copy under at least one name;
///  - a refused event changes nothing (kConflict, and kCapacity for want of bytes: nothing from the offending block
///    on), so the index may know less than the worker holds, never more;
///  - if a worker holds a whole prefix, eviction never takes one of its blocks and leaves one that follows it.
///
/// Memory: see bytes(). A block that one worker holds takes 48 to 63 bytes, whatever the length of the prompts; each
/// further worker that holds it adds 18 to 37. (This leaves out the places that removals free in chunks whose first
/// blocks stay; they wait for new blocks.) If an event might not fit into Options::max_bytes any more, blocks are
/// evicted first: those that were not looked up for the longest time, and among equally old ones the deepest. A block
/// that was never looked up and that one worker holds counts as half a turnover of the index old from the start, so
/// that it is evicted before those that proved useful. Later removals of an evicted block are unknown removals, later
/// stores behind it have an unknown parent.
class KvIndex {
 public:
  struct Options {
    std::string model;
    std::uint32_t block_size = 32;                 ///< tokens
    std::size_t max_blocks_per_worker = 4U << 20;  ///< so that a worker that never removes cannot evict all others
    /// The limit of bytes(). Less than half a MiB is of no use.
    std::size_t max_bytes = std::size_t{1} << 30;
    /// Media other than device memory are indexed for workers with ids below this number; 0: for none.
    std::size_t workers = 0;
  };

  explicit KvIndex(Options options);
  ~KvIndex();
  KvIndex(KvIndex&&) noexcept;
  KvIndex& operator=(KvIndex&&) noexcept;

  /// Applies one event of a worker. Returns the reason if it was refused.
  std::optional<Refusal> apply(WorkerId worker, const kv::KvEventView& event);
  std::optional<Refusal> apply(WorkerId worker, const kv::KvEvent& event);
  /// Applies events of a worker in order and returns how many were refused. This is faster than one by one: the memory
  /// that later events need is prefetched while earlier ones are applied.
  std::size_t apply(WorkerId worker, std::span<const kv::KvEventView> events);
  std::size_t apply(WorkerId worker, std::span<const kv::KvEvent> events);
  /// Prefetches what nearly all events of a worker need. Useful before their message is decoded, when the caller has
  /// other work to do until apply().
  void prefetch(WorkerId worker) const;
  /// Forgets all blocks of a worker.
  void clear(WorkerId worker);
  /// As clear(), and forgets the worker's counters too: from here on the id belongs to another worker.
  void forget(WorkerId worker);

  /// Whether the worker has a block of this name.
  [[nodiscard]] bool knows(WorkerId worker, kv::ExternalHash name) const;
  /// Records that the worker holds this whole prefix, although events named only its last block, because the caller has
  /// other evidence. The blocks before the last are held under names that are derived from their keys. Returns false
  /// and changes nothing if the budget does not allow it. Requires: the prefix has a block, and knows() is false for
  /// the name.
  [[nodiscard]] bool adopt(WorkerId worker, std::span<const kv::BlockHash> prefix, kv::ExternalHash last_name);
  /// Takes back what adopt() did when its evidence is gone, except for the last block, which has a name of its own.
  void release(WorkerId worker, std::span<const kv::BlockHash> prefix);

  /// `hashes` are the block hashes of a prompt from its first block on. depths[w] becomes the number of leading blocks
  /// that worker w holds without a gap, 0 for unknown workers; workers beyond depths.size() are left out.
  /// Threads: the writer's.
  void match(std::span<const kv::BlockHash> hashes, std::span<std::uint32_t> depths) const;
  /// The workers that hold at least the first block, in ascending order, with the number of leading blocks. Valid until
  /// the next call. The cost grows with the blocks found and the workers that hold them, not with the fleet. Threads:
  /// the writer's.
  [[nodiscard]] std::span<const WorkerMatch> match(std::span<const kv::BlockHash> hashes) const;
  /// The workers of the last match() that hold some of the matched blocks only in lower tiers. Threads: the writer's.
  [[nodiscard]] std::span<const LowerTierMatch> lower_tiers() const;

  /// Distinct block names of one worker in one medium.
  [[nodiscard]] std::size_t worker_blocks(WorkerId worker, kv::Medium medium = kv::Medium::kDevice) const;
  /// Distinct keys over all workers.
  [[nodiscard]] std::size_t keys() const;
  [[nodiscard]] const KvIndexCounters& counters(WorkerId worker) const;
  [[nodiscard]] std::uint32_t block_size() const;
  /// All memory of the index: tables with their free slots, sets of workers, a record of some 510 bytes for each worker
  /// that ever had an event, and what readers still hold back. Not counted are some 25 KB that batches pass through,
  /// and free memory between allocations (HugeHeap gives it back if it is more than half). At most Options::max_bytes,
  /// with two exceptions: the workers' records, and sets of workers that come to differ while blocks are removed and a
  /// stopped reader holds back the old sets.
  [[nodiscard]] std::size_t bytes() const;
  /// How many times blocks were evicted to stay within the budget.
  [[nodiscard]] std::uint64_t evictions() const;

  /// Looks prompts up from another thread. Wait-free: a look-up takes a bounded number of steps whatever the writer
  /// does. Each block of the answer was held as it says at some moment between the call and the return, so a worker is
  /// never named for a block that it never held.
  ///
  /// Threads: made by KvIndex::make_reader() on the writer's thread, then used by one thread at a time. Requires: it is
  /// destroyed before its index. A reader between two look-ups costs nothing. One that is stopped within a look-up
  /// keeps memory from being re-used until it goes on; when that exhausts the byte budget, new blocks are refused.
  class Reader {
   public:
    Reader(Reader&&) noexcept;
    Reader& operator=(Reader&&) = delete;
    ~Reader();
    /// As KvIndex::match().
    [[nodiscard]] std::span<const WorkerMatch> match(std::span<const kv::BlockHash> hashes);
    /// As KvIndex::lower_tiers().
    [[nodiscard]] std::span<const LowerTierMatch> lower_tiers() const;

   private:
    friend class KvIndex;
    struct Inside;
    explicit Reader(std::unique_ptr<Inside> inside);

    std::unique_ptr<Inside> inside_;
  };
  [[nodiscard]] Reader make_reader();

  /// One worker's part taken out of this index, and put into another one: kv_index_transfer.h.
  class Export;
  class Import;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvist::kv_index
