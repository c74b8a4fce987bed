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

namespace kvist::kv_index {

/// Why an event was not (or not wholly) taken into the index.
enum class Refusal : std::uint8_t {
  kUnknownParent,  ///< its first block continues a prefix this index does not know
  kBlockSize,      ///< blocks of another size than configured: their tokens can never match a prompt's blocks
  kExtraKeys,      ///< content that tokens alone do not identify (images)
  kMedium,         ///< not in device memory
  kGroup,          ///< of a further KV cache group of a hybrid model: the same tokens again
  kMalformed,      ///< the number of tokens does not fit the number of blocks
  kConflict,       ///< a name that the worker used for other tokens before
  kCapacity,       ///< more blocks than one worker can have, or no room in the byte budget even after eviction
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
  std::uint64_t evicted_blocks = 0;                ///< forgotten for the byte budget's sake
};

/// A worker that holds the first `blocks` blocks of a prompt, at least one.
struct WorkerMatch {
  WorkerId worker;
  std::uint32_t blocks = 0;
  friend bool operator==(const WorkerMatch&, const WorkerMatch&) = default;
};

/// Prefix index over all workers. Names of the workers' own are opaque, so each block's key is recomputed from its
/// tokens: two workers that hash differently still meet in one key, and a prompt's keys can be looked up directly.
///
/// Threads: none of its own. One thread writes, and may match() as it likes; each further thread that looks prompts up
/// has a Reader. Invariants:
///  - a worker is in the set of a key exactly while it holds at least one copy under at least one name;
///  - a refused event changes nothing (kConflict, and kCapacity for want of bytes: nothing from the offending block
///    on), so the index may know less than the worker holds, never more;
///  - of a worker's blocks whose prefix it holds whole, eviction never takes one and leaves one behind it.
///
/// Memory: see bytes(). A block that one worker holds takes 48 to 63 bytes, whatever the length of the prompts; at a
/// further worker 18 to 37 more. (Where prompts lose their ends and keep their first blocks, in no order, what the ends
/// leave waits for new blocks.)
/// Where an event might not fit into Options::max_bytes any more, what is worth least is evicted first: blocks that
/// were not looked up for longest (one never looked up and held by one worker counts as half a turnover of the index
/// old from the start, so that it goes before those that proved their use), among equally old ones the deepest. Later
/// removals of an evicted block are unknown removals, later stores behind it unknown parents.
class KvIndex {
 public:
  struct Options {
    std::string model;
    std::uint32_t block_size = 32;                 ///< tokens
    std::size_t max_blocks_per_worker = 4U << 20;  ///< a worker that never removes cannot push out all others
    /// Of all memory, see bytes(); half a MiB is the least that is of use.
    std::size_t max_bytes = std::size_t{1} << 30;
  };

  explicit KvIndex(Options options);
  ~KvIndex();
  KvIndex(KvIndex&&) noexcept;
  KvIndex& operator=(KvIndex&&) noexcept;

  /// Takes one event of a worker in; the reason where it was refused.
  std::optional<Refusal> apply(WorkerId worker, const kv::KvEvent& event);
  /// Takes events of a worker in, in order; how many were refused. Faster than one by one: the memory that later ones
  /// need is fetched while earlier ones are taken in.
  std::size_t apply(WorkerId worker, std::span<const kv::KvEvent> events);
  /// Events of a worker come next: what nearly all of them need is on its way to the processor's cache. To be called
  /// before their message is read, where the caller has other work until apply().
  void prefetch(WorkerId worker) const;
  /// Forgets all blocks of a worker.
  void clear(WorkerId worker);

  /// Whether the worker has a block of this name.
  [[nodiscard]] bool knows(WorkerId worker, kv::ExternalHash name) const;
  /// The worker holds this prefix whole, by other evidence than events, which named its last block only: the blocks
  /// before are held under names made of their keys. False, and nothing is changed, where there is no room. Requires a
  /// block, and that knows() the name does not.
  [[nodiscard]] bool adopt(WorkerId worker, std::span<const kv::BlockHash> prefix, kv::ExternalHash last_name);
  /// The evidence is gone: takes back what adopt() did, but for the last block, which has its name.
  void release(WorkerId worker, std::span<const kv::BlockHash> prefix);

  /// `hashes` are those of a prompt from its first block on; depths[w] becomes the number of them that worker w holds
  /// without a gap; 0 for workers never heard of.
  /// Workers beyond depths.size() are left out. Writer's thread.
  void match(std::span<const kv::BlockHash> hashes, std::span<std::uint32_t> depths) const;
  /// The workers that hold at least the first block, in ascending order, and how many blocks; valid until the next
  /// call. Costs grow with the blocks found and the workers that hold them, not with the fleet. Writer's thread.
  [[nodiscard]] std::span<const WorkerMatch> match(std::span<const kv::BlockHash> hashes) const;

  /// Distinct block names of one worker.
  [[nodiscard]] std::size_t worker_blocks(WorkerId worker) const;
  /// Distinct keys over all workers.
  [[nodiscard]] std::size_t keys() const;
  [[nodiscard]] const KvIndexCounters& counters(WorkerId worker) const;
  [[nodiscard]] std::uint32_t block_size() const;
  /// All memory of the index: tables with their unused room, sets of workers, a record of some 500 bytes per worker
  /// that was ever heard of, and what readers still hold back; not some 25 KB that batches pass through, nor what lies
  /// free between blocks of memory (HugeHeap gives it back where it is more than half). At most
  /// Options::max_bytes, with two exceptions: the records themselves, and sets of workers that come to differ while
  /// blocks are removed and a stopped reader holds the rest.
  [[nodiscard]] std::size_t bytes() const;
  /// Times that room was made by eviction.
  [[nodiscard]] std::uint64_t evictions() const;

  /// A look-up from another thread: wait-free, that is, a bounded number of steps whatever the writer does. What it
  /// returns was true block by block at moments between the call and the return: a worker is never named for a block
  /// that it never held.
  ///
  /// Made by KvIndex::make_reader() on the writer's thread, then used by one thread at a time, gone before its index.
  /// A reader between two look-ups costs nothing; one that is stopped within a look-up keeps memory from being re-used
  /// until it goes on, and so in the end, when the byte budget is exhausted, new blocks out of the index.
  class Reader {
   public:
    Reader(Reader&&) noexcept;
    Reader& operator=(Reader&&) = delete;
    ~Reader();
    /// As KvIndex::match().
    [[nodiscard]] std::span<const WorkerMatch> match(std::span<const kv::BlockHash> hashes);

   private:
    friend class KvIndex;
    struct Inside;
    explicit Reader(std::unique_ptr<Inside> inside);

    std::unique_ptr<Inside> inside_;
  };
  [[nodiscard]] Reader make_reader();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvist::kv_index
