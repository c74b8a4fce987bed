// The inside of the KV index: its tables, and what happens to them with each event. Private to kv_index*.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/kv_index/change_group.h"
#include "kvist/kv_index/epochs.h"
#include "kvist/kv_index/holder_table.h"
#include "kvist/kv_index/index_memory.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/kv_index/name_table.h"
#include "kvist/kv_index/prefix_matcher.h"

namespace kvist::kv_index {

/// One worker's blocks: what its names mean.
struct IndexedWorker {
  IndexedWorker(IndexMemory& memory, std::uint32_t worker_id)
      : id(worker_id), names(memory), further_copies(memory), further_names(memory) {}

  std::uint32_t id;
  NameTable names;           // name -> block
  NameTable further_copies;  // name -> physical copies beyond the first
  NameTable further_names;   // block -> names beyond the first
  KvIndexCounters counters;
  std::size_t counted = 0;  // names, that the memory knows of

  [[nodiscard]] HoldingWorker holder() { return {.id = id, .further_names = &further_names}; }
};

struct KvIndex::State {
 public:
  explicit State(Options index_options);
  ~State();

  std::size_t apply(WorkerId worker, std::span<const kv::KvEvent> events, std::optional<Refusal>* reason);
  void clear(WorkerId worker);
  [[nodiscard]] const IndexedWorker* find(WorkerId worker) const;
  void prefetch(WorkerId worker) const;
  [[nodiscard]] bool adopt(WorkerId worker, std::span<const kv::BlockHash> prefix, kv::ExternalHash last_name);
  void release(WorkerId worker, std::span<const kv::BlockHash> prefix);

  Options options;
  Epochs epochs;
  IndexMemory memory{epochs, options.max_bytes};
  HolderTable holders{memory, epochs};
  PrefixMatcher matcher;  // of the writer's own look-ups
  std::uint64_t evictions = 0;

 private:
  // With what has to be known of it before its own memory comes.
  struct KnownWorker {
    IndexedWorker* worker = nullptr;       // none for one never heard of
    std::span<const std::byte> directory;  // of its names
  };
  KnownWorker& worker_at(WorkerId id);

  // Batches of events (kv_index_batch.cc).
  struct Batch;
  [[nodiscard]] bool collect(Batch& batch);
  void measure_room(const IndexedWorker& worker);
  [[nodiscard]] bool collect_event(Batch& batch);
  [[nodiscard]] bool collect(Batch& batch, const kv::BlockStored& event);
  [[nodiscard]] bool collect(Batch& batch, const kv::BlockRemoved& event);
  void collect(Batch& batch, const NameTable::Prefetcher& prefetcher, std::span<const kv::ExternalHash> blocks);
  [[nodiscard]] bool well_formed(const kv::BlockStored& event) const;
  [[nodiscard]] Refusal fault_of(const kv::BlockStored& event) const;
  [[nodiscard]] std::optional<Refusal> make_room(const IndexedWorker& worker, const kv::BlockStored& event);
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
  [[nodiscard]] std::uint64_t root_of(const kv::BlockStored& event) const;
  void make(Batch& batch);
  void find_parent(Batch& batch, ChangeGroup::Run& run, bool evicted);
  void store(Batch& batch, const ChangeGroup::Run& run);
  void refuse(Batch& batch, const ChangeGroup::Run& run, std::size_t from_change, Refusal refusal);
  [[nodiscard]] bool add_copy(IndexedWorker& worker, const HoldingWorker& holder, HolderTable::Prefix& prefix,
                              std::size_t change, BlockOutlook outlook);
  [[nodiscard]] bool add_further_copy(IndexedWorker& worker, const NameTable::Ahead& name, BlockRef known,
                                      std::uint64_t key);
  void remove(IndexedWorker& worker, const ChangeGroup::Run& run);
  [[nodiscard]] bool drop_copy(IndexedWorker& worker, const HoldingWorker& holder, const NameTable::Ahead& name);
  [[nodiscard]] bool drop_copy(IndexedWorker& worker, NameDigest name);
  [[nodiscard]] bool drop_further_copy(IndexedWorker& worker, const NameTable::Ahead& name);
  void clear(IndexedWorker& worker);
  void reclaim();
  void count_blocks(IndexedWorker& worker);
  void economize(IndexedWorker& worker);

  // What no event told (kv_index_adoption.cc).
  [[nodiscard]] bool hold(IndexedWorker& worker, HolderTable::Prefix& prefix, NameDigest name, std::uint64_t key,
                          BlockOutlook outlook);
  void let_go(IndexedWorker& worker, std::span<const kv::BlockHash> blocks);

  // Room for changes (kv_index_eviction.cc).
  void make_room(const IndexedWorker& worker, std::size_t blocks);
  [[nodiscard]] std::size_t room_for_changes(const IndexedWorker& worker) const;
  // For one change.
  [[nodiscard]] bool take_room(const IndexedWorker& worker) { return room_for_group_ || take_scarce_room(worker); }
  [[nodiscard]] bool take_scarce_room(const IndexedWorker& worker);
  [[nodiscard]] bool find_room(const IndexedWorker& worker);
  [[nodiscard]] std::size_t change_bytes(const IndexedWorker& worker) const;
  void evict(std::size_t goal_bytes);
  [[nodiscard]] std::uint64_t sampled_uselessness(double part);
  void evict_from(IndexedWorker& worker, std::uint64_t from_uselessness);

  kv::BlockHash plain_root_;  // of prompts without LoRA and salt
  ChangeGroup group_;
  std::size_t group_room_ = 0;        // for so many changes before the group
  std::size_t group_limit_ = 0;       // so many blocks fit in, whatever becomes of those before
  std::vector<KnownWorker> workers_;  // by WorkerId
  std::size_t next_to_shrink_ = 0;    // the worker where the next eviction goes on
  bool room_for_group_ = false;       // all its changes fit without a look at the tables
  std::size_t room_ = 0;              // else so many do
  std::size_t changes_in_epoch_ = 0;
  RandomStream random_{1};  // for samples
  std::vector<std::uint64_t> sample_;
  std::vector<BlockRef> dropped_;
};

}  // namespace kvist::kv_index
