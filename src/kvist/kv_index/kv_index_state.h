// The inside of the KV index: its tables, and what happens to them with each event. Private to kv_index*.cc.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event.h"
#include "kvist/kv/kv_event_view.h"
#include "kvist/kv_index/block_piece.h"
#include "kvist/kv_index/epochs.h"
#include "kvist/kv_index/holder_table.h"
#include "kvist/kv_index/index_memory.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/kv_index/name_table.h"
#include "kvist/kv_index/prefix_matcher.h"

namespace kvist::kv_index {

/// Up to 64 blocks that are stored or removed at one worker, in order. They pass through the stages of an update
/// together (group prefetching: Chen, Ailamaki, Gibbons, Mowry, 2004): each stage prefetches, for all blocks one right
/// after the other, the memory that the next stage reads. So their cache misses and, what costs as much, their TLB
/// misses overlap, which a processor cannot achieve for accesses with other work between them.
///
/// What the earlier stages find only tells what to prefetch: the last stage, which changes the tables, searches again.
/// Threads: the writer's.
struct ChangeGroup {
  static constexpr std::size_t kChanges = 64;

  struct Run;
  /// The block before an event's first one.
  struct Parent {
    NameTable::Lookup name;
    BlockRef block = 0;  // what its name meant before the group; 0: nothing
    // Where the group itself stores a block under this name, if it does:
    const Run* run = nullptr;
    std::uint32_t change = 0;
  };
  /// The blocks of one event that stores, or of consecutive events that remove.
  struct Run {
    const kv::KvEventView* stored = nullptr;  // null: the blocks are removed
    Parent* parent = nullptr;                 // null: the event has no parent, or does not begin in this run
    std::uint32_t block = 0;                  // the number of its first block in the event
    std::uint32_t begin = 0;                  // its changes are begin .. end - 1
    std::uint32_t end = 0;
    std::uint32_t number = 0;      // the likely number of its first block in a chunk
    std::uint64_t parent_key = 0;  // with which its keys were computed

    [[nodiscard]] std::uint32_t size() const { return end - begin; }
    [[nodiscard]] bool begins() const { return block == 0; }
  };

  [[nodiscard]] bool empty() const { return run_count == 0; }
  [[nodiscard]] bool full() const { return size == kChanges || run_count == kChanges; }
  [[nodiscard]] std::span<const NameTable::Lookup> all_names() const { return std::span(names).first(size); }
  [[nodiscard]] std::span<Parent> all_parents() { return std::span(parents).first(parent_count); }
  [[nodiscard]] std::span<Run> all_runs() { return std::span(runs).first(run_count); }
  [[nodiscard]] std::span<kv::BlockHash> keys_of(const Run& run) {
    return std::span(keys).subspan(run.begin, run.size());
  }
  [[nodiscard]] std::span<BlockRef> blocks_of(const Run& run) {
    return std::span(blocks).subspan(run.begin, run.size());
  }
  [[nodiscard]] const Run* last_run() const { return run_count != 0 ? &runs[run_count - 1] : nullptr; }

  void begin_run(const kv::KvEventView* stored, std::size_t block, Parent* parent) {
    Run& run = runs[run_count++];
    run.stored = stored;
    run.parent = parent;
    run.block = static_cast<std::uint32_t>(block);
    run.begin = size;
    run.end = size;
  }
  /// Adds blocks to the last run.
  [[gnu::always_inline]] void add(const NameTable::Prefetcher& prefetcher, std::span<const kv::ExternalHash> added) {
    const std::uint16_t mark = number;
    NameTable::Lookup* lookup = &names[size];
    size += static_cast<std::uint32_t>(added.size());
    runs[run_count - 1].end = size;
    for (const kv::ExternalHash block : added) {
      const NameDigest name(block.value());
      prefetcher.prefetch(name, *lookup++);
      marks[name.bits() % kMarks] = mark;
    }
  }
  /// The last change of the group to a block of that name, with its run; no run if there is none.
  struct Found {
    const Run* run = nullptr;
    std::uint32_t change = 0;
  };
  [[nodiscard]] Found find(NameDigest name) const {
    if (marks[name.bits() % kMarks] != number) [[likely]]
      return {};
    return search(name);
  }
  [[nodiscard]] Found search(NameDigest name) const {
    for (std::uint32_t i = run_count; i-- > 0;) {
      for (std::uint32_t j = runs[i].end; j-- > runs[i].begin;) {
        if (names[j].hash == name.bits()) return {.run = &runs[i], .change = j};
      }
    }
    return {};
  }
  /// Adds the parent of the next run. `found` is what find() returned for its name.
  [[gnu::always_inline]] Parent& add_parent(const NameTable::Prefetcher& prefetcher, NameDigest name, Found found) {
    Parent& parent = parents[parent_count++];
    prefetcher.prefetch(name, parent.name);
    parent.run = found.run;
    parent.change = found.change;
    return parent;
  }
  void clear() {
    size = 0;
    parent_count = 0;
    run_count = 0;
    head_count = 0;
    ++number;
  }

  /// Notes the hash line where the first block of a chunk is or will be; null is ignored.
  void add_head(const HeadLine* line) {
    heads[head_count] = line;
    head_count += line != nullptr ? 1 : 0;
  }
  [[nodiscard]] std::span<const HeadLine* const> all_heads() const { return std::span(heads).first(head_count); }

  static constexpr std::size_t kMarks = 2048;
  std::uint16_t number = 0;  // of the group, as far as 16 bits tell
  std::uint32_t size = 0;
  std::uint32_t parent_count = 0;
  std::uint32_t run_count = 0;
  std::uint32_t head_count = 0;
  std::array<NameTable::Lookup, kChanges> names;
  std::array<kv::BlockHash, kChanges> keys;  // of stored blocks
  // For a removed block what its name meant before the group, for a stored one where the last stage put it; 0: nothing.
  std::array<BlockRef, kChanges> blocks;
  std::array<Parent, kChanges> parents;
  std::array<Run, kChanges> runs;
  std::array<const HeadLine*, kChanges + 1> heads;  // one more, because add_head() writes before it counts
  // By some bits of a name's digest: the last group with a change to such a name. Because of it find() rarely has to
  // search.
  std::array<std::uint16_t, kMarks> marks = {};
};

/// The name under which a block is held that no event named. It equals a worker's own name only if 64-bit hashes
/// collide.
[[nodiscard]] NameDigest adopted_name(kv::BlockHash key);

/// One worker's names and the blocks that they mean.
struct IndexedWorker {
  IndexedWorker(IndexMemory& memory, std::uint32_t worker_id)
      : id(worker_id), names(memory), further_copies(memory), further_names(memory) {}

  std::uint32_t id;
  NameTable names;           // name -> block
  NameTable further_copies;  // name -> physical copies beyond the first
  NameTable further_names;   // block -> names beyond the first
  KvIndexCounters counters;
  std::size_t counted = 0;    // the number of names that IndexMemory::count_blocks() was told of
  std::uint64_t changes = 0;  // increases whenever names change, whether by events or not

  [[nodiscard]] HoldingWorker holder() { return {.id = id, .further_names = &further_names}; }
};

struct KvIndex::State {
 public:
  explicit State(Options index_options);
  ~State();

  std::size_t apply(WorkerId worker, std::span<const kv::KvEventView> events, std::optional<Refusal>* reason);
  void clear(WorkerId worker);
  void forget(WorkerId worker);
  [[nodiscard]] const IndexedWorker* find(WorkerId worker) const;
  void prefetch(WorkerId worker) const;
  /// The worker's names in one medium; null if it has none there.
  [[nodiscard]] IndexedWorker* find_record(WorkerId worker, kv::Medium medium) const;
  /// The block that a name means in the best medium in which the worker has it; 0 if none.
  [[nodiscard]] BlockRef find_in_any_tier(WorkerId worker, NameDigest name) const;
  [[nodiscard]] bool adopt(WorkerId worker, std::span<const kv::BlockHash> prefix, kv::ExternalHash last_name);
  void release(WorkerId worker, std::span<const kv::BlockHash> prefix);

  // Parts that pass between indexes (kv_index_transfer.cc).
  /// Another number whenever the worker's names may have changed.
  [[nodiscard]] std::uint64_t changes(WorkerId worker) const;
  /// The worker holds a run of blocks behind one that it holds under a name; nothing: at the start of a prompt.
  [[nodiscard]] std::optional<Refusal> put_run(WorkerId worker, std::optional<NameDigest> parent,
                                               std::span<const kv::BlockHash> keys, std::span<const NameDigest> names);
  /// The worker holds the block that it holds under `of` in device memory under a further name too.
  [[nodiscard]] std::optional<Refusal> put_name(WorkerId worker, NameDigest of, const BlockPiece::FurtherName& further);
  /// The worker does not hold these names in device memory any more.
  void drop_names(WorkerId worker, std::span<const NameDigest> names);

  Options options;
  std::atomic<bool> has_lower = false;  // some worker holds or held a block below device memory
  Epochs epochs;
  IndexMemory memory{epochs, options.max_bytes};
  HolderTable holders{memory, epochs};
  PrefixMatcher matcher;  // of the writer's own look-ups
  /// The number of the first holder below device memory; 0: there are none. Threads: any.
  [[nodiscard]] std::size_t lower_from() const {
    return has_lower.load(std::memory_order_acquire) ? options.workers : 0;
  }
  std::uint64_t evictions = 0;
  std::vector<kv::KvEventView> views;  // scratch memory of apply() for events of type KvEvent

 private:
  // A worker's record, with what prefetch() needs to know before the record is in the cache.
  struct KnownWorker {
    IndexedWorker* worker = nullptr;       // null: unknown
    std::span<const std::byte> directory;  // of its names
  };
  KnownWorker& worker_at(WorkerId id);

  // Batches of events (kv_index_batch.cc).
  struct Batch;
  [[nodiscard]] bool collect(Batch& batch);
  void measure_budget(const IndexedWorker& worker);
  [[nodiscard]] bool collect_event(Batch& batch);
  [[nodiscard]] bool collect_stored(Batch& batch, const kv::KvEventView& event);
  [[nodiscard]] bool collect_removed(Batch& batch, const kv::KvEventView& event);
  [[nodiscard]] bool collect_other(Batch& batch, const kv::KvEventView& event);
  void collect(Batch& batch, const NameTable::Prefetcher& prefetcher, std::span<const kv::ExternalHash> blocks);
  [[nodiscard]] bool well_formed(const kv::KvEventView& event) const;
  [[nodiscard]] Refusal fault_of(const kv::KvEventView& event) const;
  [[nodiscard]] std::optional<Refusal> ensure_budget(const IndexedWorker& worker, const kv::KvEventView& event);
  void fetch_next_lines(const Batch& batch);
  void find_names(Batch& batch);
  void find_keys(Batch& batch);
  [[nodiscard]] std::uint64_t parent_key(const Batch& batch, const ChangeGroup::Run& run) const;
  [[nodiscard]] std::uint32_t first_number(const Batch& batch, const ChangeGroup::Run& run) const;
  void set_keys(const ChangeGroup::Run& run);
  void fetch_heads(const ChangeGroup::Run& run);
  [[nodiscard]] std::uint64_t key_of(std::size_t change) const {
    return BlockChains::valid(group_.keys[change].value());
  }
  [[nodiscard]] std::uint64_t root_of(const kv::KvEventView& event) const;
  void make(Batch& batch);
  void find_parent(Batch& batch, ChangeGroup::Run& run, bool evicted);
  void store(Batch& batch, const ChangeGroup::Run& run);
  void refuse(Batch& batch, const ChangeGroup::Run& run, std::size_t from_change, Refusal refusal);
  [[nodiscard]] bool add_copy(IndexedWorker& worker, const HoldingWorker& holder, HolderTable::Prefix& prefix,
                              std::size_t change, PlacementHint placement);
  [[nodiscard]] bool add_further_copy(IndexedWorker& worker, const NameTable::Lookup& name, BlockRef known,
                                      std::uint64_t key);
  void remove(IndexedWorker& worker, const ChangeGroup::Run& run);
  [[nodiscard]] bool drop_copy(IndexedWorker& worker, const HoldingWorker& holder, const NameTable::Lookup& name);
  [[nodiscard]] bool drop_copy(IndexedWorker& worker, NameDigest name);
  [[nodiscard]] bool drop_further_copy(IndexedWorker& worker, const NameTable::Lookup& name);
  void clear(IndexedWorker& worker);
  void reclaim();
  void count_blocks(IndexedWorker& worker);
  void economize(IndexedWorker& worker);

  // Media below device memory, and blocks without tokens (kv_index_tiers.cc).
  /// Whether an event is applied alone instead of passing through the stages.
  [[nodiscard]] static bool goes_alone(const kv::KvEventView& event) {
    const bool names_only =
        event.kind == kv::KvEventView::Kind::kStored && event.tokens.empty() && !event.names_are_keys;
    return event.group == 0 && (event.medium != kv::Medium::kDevice || names_only);
  }
  [[nodiscard]] std::optional<Refusal> apply_alone(WorkerId id, const kv::KvEventView& event);
  [[nodiscard]] std::optional<Refusal> store_alone(WorkerId id, IndexedWorker& record, const kv::KvEventView& event);
  [[nodiscard]] std::optional<Refusal> store_named(WorkerId id, IndexedWorker& record, const kv::KvEventView& event);
  void remove_alone(WorkerId id, const kv::KvEventView& event);
  void begin_single_changes(const IndexedWorker& worker, std::size_t changes);
  [[nodiscard]] IndexedWorker& lower_at(WorkerId id, kv::Medium medium);
  void clear_lower(WorkerId id);
  /// The block that a name means in a medium below device memory; 0 if none.
  [[nodiscard]] BlockRef find_below(const IndexedWorker& worker, const NameTable::Lookup& name) const;
  [[nodiscard]] KvIndexCounters& counters_of(IndexedWorker& worker);
  /// One more than the largest holder number.
  [[nodiscard]] std::size_t holders_end() const {
    return lower_.empty() ? workers_.size() : options.workers + lower_.size();
  }

  // Prefixes that no event named (kv_index.cc).
  [[nodiscard]] bool hold(IndexedWorker& worker, HolderTable::Prefix& prefix, NameDigest name, std::uint64_t key,
                          PlacementHint placement);
  void let_go(IndexedWorker& worker, std::span<const kv::BlockHash> blocks);

  // The byte budget (kv_index_eviction.cc).
  void ensure_budget(const IndexedWorker& worker, std::size_t blocks);
  [[nodiscard]] std::size_t changes_within_budget(const IndexedWorker& worker) const;
  // Whether the budget allows one more change; counts it.
  [[nodiscard]] bool take_from_budget(const IndexedWorker& worker) {
    return group_within_budget_ || take_from_scarce_budget(worker);
  }
  [[nodiscard]] bool take_from_scarce_budget(const IndexedWorker& worker);
  [[nodiscard]] bool find_budget(const IndexedWorker& worker);
  [[nodiscard]] std::size_t change_bytes(const IndexedWorker& worker) const;
  void evict(std::size_t goal_bytes);
  [[nodiscard]] std::uint64_t sampled_uselessness(double part);
  void evict_from(IndexedWorker& worker, std::uint64_t from_uselessness);

  kv::BlockHash plain_root_;  // of prompts without LoRA and salt
  ChangeGroup group_;
  std::size_t group_budget_ = 0;      // how many changes the budget allowed before the group
  std::size_t group_limit_ = 0;       // how many blocks of the group are certain to fit
  std::vector<KnownWorker> workers_;  // by WorkerId
  // By WorkerId and medium, kLowerTiers for each worker; null where it holds nothing. Their numbers as holders begin
  // with Options::workers, behind those of the workers themselves, which are their ids.
  std::vector<IndexedWorker*> lower_;
  std::size_t next_to_shrink_ = 0;    // the worker where the next eviction goes on
  bool group_within_budget_ = false;  // all changes of the group fit into the budget
  std::size_t changes_left_ = 0;      // otherwise: how many more changes are known to fit
  std::size_t changes_in_epoch_ = 0;
  RandomStream random_{1};  // for samples
  std::vector<std::uint64_t> sample_;
  std::vector<BlockRef> dropped_;
};

}  // namespace kvist::kv_index
