// Applies batches of events: their blocks become changes, which pass through the stages in groups.
#include <algorithm>

#include "kvist/kv_index/kv_index_state.h"

namespace kvist::kv_index {
namespace {

using Kind = kv::KvEventView::Kind;

// How many events before its turn an event's content is prefetched. Engines that evict block by block send many events
// of one block.
constexpr std::size_t kEventsPrefetched = 8;

void fetch_content(const kv::KvEventView& event) {
  __builtin_prefetch(event.hashes.data());
  if (event.kind != Kind::kStored) return;
  if (event.names_are_keys) return;
  const char* const tokens = reinterpret_cast<const char*>(event.tokens.data());
  __builtin_prefetch(tokens);
  __builtin_prefetch(tokens + 64);
  __builtin_prefetch(tokens + 128);
}

}  // namespace

/// The events of one worker that are being applied.
struct KvIndex::State::Batch {
  IndexedWorker& worker;
  std::span<const kv::KvEventView> events;
  std::optional<Refusal>* reason = nullptr;
  std::size_t refused = 0;
  // The next block to collect, and the event that it is in.
  std::size_t event = 0;
  std::size_t block = 0;
  // For an event whose first blocks are in an earlier group: the last key, the likely number of the next block in its
  // chunk, and the prefix so far.
  std::uint64_t key = 0;
  std::uint32_t number = 0;
  HolderTable::Prefix prefix;

  void pass(std::size_t blocks, std::size_t of_all) {
    block += blocks;
    if (block == of_all) pass_event();
  }
  void pass_event() {
    ++event;
    block = 0;
  }
  void refuse(Refusal refusal) {
    ++refused;
    ++worker.counters.refused[static_cast<std::size_t>(refusal)];
    if (reason != nullptr) *reason = refusal;
  }
  /// Refuses the next event as a whole.
  void refuse_event(Refusal refusal) {
    refuse(refusal);
    pass_event();
  }
};

std::size_t KvIndex::State::apply(WorkerId id, std::span<const kv::KvEventView> events,
                                  std::optional<Refusal>* reason) {
  KnownWorker& known = worker_at(id);
  Batch batch{.worker = *known.worker, .events = events, .reason = reason, .prefix = {}};
  ++batch.worker.changes;
  for (reclaim(); collect(batch); reclaim()) {
    fetch_next_lines(batch);
    find_names(batch);
    find_keys(batch);
    make(batch);
    economize(batch.worker);
  }
  known.directory = known.worker->names.directory_memory();
  return batch.refused;
}

/// First stage: collects the next group and prefetches the memory of its names. Returns false at the end.
bool KvIndex::State::collect(Batch& batch) {
  group_.clear();
  measure_budget(batch.worker);
  while (!group_.full() && batch.event < batch.events.size() && collect_event(batch)) {
  }
  return !group_.empty();
}

/// Measures the budget of the group that begins.
void KvIndex::State::measure_budget(const IndexedWorker& worker) {
  group_budget_ = changes_within_budget(worker);
  const std::size_t most = options.max_blocks_per_worker;
  group_limit_ = std::min(group_budget_ / 2, most - std::min(worker.names.size(), most));
}

/// Adds the next event, or part of it, to the group. Returns false if the event has to wait until the group is done.
[[gnu::always_inline]] inline bool KvIndex::State::collect_event(Batch& batch) {
  const kv::KvEventView& event = batch.events[batch.event];
  if (batch.event + kEventsPrefetched < batch.events.size())
    fetch_content(batch.events[batch.event + kEventsPrefetched]);
  if (event.kind == Kind::kStored) return collect_stored(batch, event);
  if (event.kind == Kind::kRemoved) return collect_removed(batch, event);
  if (!group_.empty()) return false;
  clear(batch.worker);
  clear_lower(WorkerId(batch.worker.id));
  measure_budget(batch.worker);
  ++batch.worker.counters.clears;
  batch.pass_event();
  return true;
}

[[gnu::always_inline]] inline bool KvIndex::State::collect_stored(Batch& batch, const kv::KvEventView& event) {
  const std::size_t blocks = event.hashes.size();
  if (batch.block == 0) {
    if (!well_formed(event)) [[unlikely]]
      return collect_other(batch, event);
    if (group_.empty()) {
      if (const auto refusal = ensure_budget(batch.worker, event)) [[unlikely]] {
        batch.refuse_event(*refusal);
        return true;
      }
    } else if (group_.size + blocks > group_limit_) {
      return false;
    }
  }
  const NameTable::Prefetcher prefetcher(batch.worker.names);
  ChangeGroup::Parent* parent = nullptr;
  if (batch.block == 0 && event.parent) {
    const NameDigest name(event.parent->value());
    const ChangeGroup::Found found = group_.find(name);
    if (found.run != nullptr && found.run->stored == nullptr) return false;  // the group removes it
    parent = &group_.add_parent(prefetcher, name, found);
  }
  group_.begin_run(&event, batch.block, parent);
  collect(batch, prefetcher, event.hashes);
  return true;
}

[[gnu::always_inline]] inline bool KvIndex::State::collect_removed(Batch& batch, const kv::KvEventView& event) {
  if (event.group != 0 || event.medium != kv::Medium::kDevice) [[unlikely]]
    return collect_other(batch, event);
  const ChangeGroup::Run* const last = group_.last_run();
  if (last == nullptr || last->stored != nullptr) group_.begin_run(nullptr, 0, nullptr);
  collect(batch, NameTable::Prefetcher(batch.worker.names), event.hashes);
  return true;
}

/// Applies an event that does not go through the stages, or refuses it. Returns as collect_event().
[[gnu::noinline]] bool KvIndex::State::collect_other(Batch& batch, const kv::KvEventView& event) {
  if (!goes_alone(event)) {
    batch.refuse_event(fault_of(event));
    return true;
  }
  if (!group_.empty()) return false;
  const std::optional<Refusal> refusal = apply_alone(WorkerId(batch.worker.id), event);
  if (refusal) batch.refuse(*refusal);
  measure_budget(batch.worker);
  batch.pass_event();
  return true;
}

/// Adds as many of an event's blocks to the group as still fit into it.
[[gnu::always_inline]] inline void KvIndex::State::collect(Batch& batch, const NameTable::Prefetcher& prefetcher,
                                                           std::span<const kv::ExternalHash> blocks) {
  const std::size_t taken = std::min(blocks.size() - batch.block, ChangeGroup::kChanges - group_.size);
  group_.add(prefetcher, blocks.subspan(batch.block, taken));
  batch.pass(taken, blocks.size());
}

[[gnu::always_inline]] inline bool KvIndex::State::well_formed(const kv::KvEventView& event) const {
  return event.group == 0 && event.medium == kv::Medium::kDevice && event.block_size == options.block_size &&
         !event.other_extra_keys &&
         event.tokens.size() == (event.names_are_keys ? 0 : event.hashes.size() * event.block_size);
}

/// Requires: the event is not well formed.
Refusal KvIndex::State::fault_of(const kv::KvEventView& event) const {
  if (event.group != 0) return Refusal::kGroup;
  if (event.medium != kv::Medium::kDevice) return Refusal::kMedium;
  if (event.block_size != options.block_size) return Refusal::kBlockSize;
  return event.other_extra_keys ? Refusal::kExtraKeys : Refusal::kMalformed;
}

/// For an event that begins a group: evicts until its blocks fit into the budget. Returns why they cannot.
std::optional<Refusal> KvIndex::State::ensure_budget(const IndexedWorker& worker, const kv::KvEventView& event) {
  const std::size_t blocks = event.hashes.size();
  const std::size_t wanted = std::min(blocks, options.max_blocks_per_worker);
  if (group_budget_ < 2 * wanted) {
    ensure_budget(worker, wanted);
    measure_budget(worker);
  }
  if (worker.names.size() + blocks <= options.max_blocks_per_worker) return std::nullopt;
  const bool known = !event.parent || find_in_any_tier(WorkerId(worker.id), NameDigest(event.parent->value())) != 0;
  return known ? Refusal::kCapacity : Refusal::kUnknownParent;
}

/// Second stage: prefetches the next lines where a search or a change goes on past the first.
void KvIndex::State::fetch_next_lines(const Batch& batch) {
  if (batch.worker.names.empty()) return;  // there are no lines
  for (const NameTable::Lookup& name : group_.all_names()) NameTable::prefetch_next(name);
  for (const ChangeGroup::Parent& parent : group_.all_parents()) NameTable::prefetch_next(parent.name);
}

/// Third stage: finds what the names mean now, and prefetches the blocks of parents and of what is removed.
void KvIndex::State::find_names(Batch& batch) {
  const BlockChains& blocks = holders.blocks();
  NameTable& names = batch.worker.names;
  for (ChangeGroup::Parent& parent : group_.all_parents()) {
    parent.block = names.find(parent.name);
    if (parent.block == 0 && parent.run == nullptr) [[unlikely]]
      parent.block = find_below(batch.worker, parent.name);
    if (parent.block != 0) blocks.prefetch(parent.block);
  }
  for (const ChangeGroup::Run& run : group_.all_runs()) {
    if (run.stored != nullptr) continue;
    for (std::uint32_t change = run.begin; change != run.end; ++change) {
      const BlockRef block = names.find_to_erase(group_.names[change]);
      group_.blocks[change] = block;
      if (block != 0) blocks.prefetch(block);
    }
  }
}

/// Fourth stage: computes the keys of what is stored. Where a block is or will be the first of a chunk, prefetches its
/// line in the hash table.
void KvIndex::State::find_keys(Batch& batch) {
  const BlockChains& blocks = holders.blocks();
  for (ChangeGroup::Run& run : group_.all_runs()) {
    if (run.stored == nullptr) {
      for (std::uint32_t change = run.begin; change != run.end; ++change) {
        const BlockRef block = group_.blocks[change];
        const bool first = block != 0 && BlockChains::number_of(block) == 0;
        if (first) group_.add_head(blocks.prefetch_head(blocks.block(block).key()));
      }
    } else if (run.size() != 0) {
      run.parent_key = parent_key(batch, run);
      set_keys(run);
      run.number = first_number(batch, run);
      fetch_heads(run);
    }
  }
}

std::uint64_t KvIndex::State::parent_key(const Batch& batch, const ChangeGroup::Run& run) const {
  if (!run.begins()) return batch.key;
  if (run.parent == nullptr) return root_of(*run.stored);
  const ChangeGroup::Parent& parent = *run.parent;
  if (parent.run != nullptr) return key_of(parent.change);
  return parent.block != 0 ? holders.blocks().block(parent.block).key() : 0;
}

/// The likely number of a run's first block in its chunk.
std::uint32_t KvIndex::State::first_number(const Batch& batch, const ChangeGroup::Run& run) const {
  if (!run.begins()) return batch.number;
  if (run.parent == nullptr) return 0;
  const ChangeGroup::Parent& parent = *run.parent;
  if (parent.run != nullptr)
    return BlockChains::likely_number_behind(parent.run->number, parent.change + 1 - parent.run->begin);
  return holders.blocks().number_behind(parent.block, key_of(run.begin));
}

/// Prefetches the lines for those blocks of a run that are likely to be the first of a chunk.
[[gnu::always_inline]] inline void KvIndex::State::fetch_heads(const ChangeGroup::Run& run) {
  const std::uint32_t before_first = run.number == 0 ? 0 : BlockChunk::kBlocks - run.number;
  for (std::uint32_t change = run.begin + before_first; change < run.end; change += BlockChunk::kBlocks) {
    group_.add_head(holders.blocks().prefetch_head(key_of(change)));
  }
}

void KvIndex::State::set_keys(const ChangeGroup::Run& run) {
  if (run.stored->names_are_keys) {
    std::ranges::transform(run.stored->hashes.subspan(run.block, run.size()), group_.keys_of(run).begin(),
                           [](kv::ExternalHash name) { return kv::BlockHash(name.value()); });
    return;
  }
  kv::chain_hashes(kv::BlockHash(run.parent_key),
                   run.stored->tokens.subspan(std::size_t{run.block} * options.block_size), options.block_size,
                   group_.keys_of(run));
}

std::uint64_t KvIndex::State::root_of(const kv::KvEventView& event) const {
  if (event.lora_name.empty() && event.cache_salt.empty()) return plain_root_.value();
  return kv::root_hash({.model = options.model, .lora = event.lora_name, .cache_salt = event.cache_salt}).value();
}

/// Last stage: changes the tables.
void KvIndex::State::make(Batch& batch) {
  for (const HeadLine* const line : group_.all_heads()) SlotSegment<HeadLine>::prefetch_next(*line);
  // Twice as much, for the reason given in find_budget().
  group_within_budget_ = group_budget_ >= 2 * ChangeGroup::kChanges;
  changes_left_ = 0;
  const std::uint64_t evictions_before = evictions;
  for (ChangeGroup::Run& run : group_.all_runs()) {
    if (run.stored == nullptr) {
      remove(batch.worker, run);
      continue;
    }
    const bool evicted = evictions != evictions_before;
    if (run.parent != nullptr && (run.parent->run != nullptr || evicted)) [[unlikely]]
      find_parent(batch, run, evicted);
    store(batch, run);
  }
  if (batch.block == 0) return;
  const ChangeGroup::Run& last = *group_.last_run();
  batch.key = key_of(last.end - 1);
  batch.number = BlockChains::likely_number_behind(last.number, last.size());
}

/// Finds what the parent's name means now. If it is another block than the keys were computed with, computes them
/// again.
void KvIndex::State::find_parent(Batch& batch, ChangeGroup::Run& run, bool evicted) {
  ChangeGroup::Parent& parent = *run.parent;
  const BlockRef stored = parent.run != nullptr && !evicted ? group_.blocks[parent.change] : 0;
  parent.block = stored != 0 ? stored : batch.worker.names.find(parent.name);
  if (parent.block == 0) parent.block = find_below(batch.worker, parent.name);
  if (parent.block == 0) return;
  const std::uint64_t key = stored != 0 ? key_of(parent.change) : holders.blocks().block(parent.block).key();
  if (key == run.parent_key) [[likely]]
    return;
  run.parent_key = key;
  set_keys(run);
}

[[gnu::always_inline]] inline void KvIndex::State::store(Batch& batch, const ChangeGroup::Run& run) {
  HolderTable::Prefix prefix = batch.prefix;
  if (run.begins()) {
    if (run.parent == nullptr) {
      prefix = holders.root();
    } else if (run.parent->block == 0) [[unlikely]] {
      return refuse(batch, run, run.begin, Refusal::kUnknownParent);
    } else {
      prefix = holders.behind(run.parent->block);
    }
  }
  IndexedWorker& worker = batch.worker;
  const HoldingWorker holder = worker.holder();
  std::optional<Refusal> refusal;
  std::size_t change = run.begin;
  for (; change != run.end; ++change) {
    if (!take_from_budget(worker)) [[unlikely]] {
      refusal = Refusal::kCapacity;
      break;
    }
    const PlacementHint placement{.coming = run.end - change, .grows = run.parent != nullptr && change == run.begin};
    if (!add_copy(worker, holder, prefix, change, placement)) [[unlikely]] {
      refusal = Refusal::kConflict;
      break;
    }
    group_.blocks[change] = prefix.last;
  }
  batch.prefix = prefix;
  const std::size_t stored = change - run.begin;
  holders.keep_time();
  worker.counters.stored_blocks += stored;
  changes_in_epoch_ += stored;
  if (refusal) [[unlikely]]
    refuse(batch, run, change, *refusal);
}

/// Refuses the rest of a run and of its event.
void KvIndex::State::refuse(Batch& batch, const ChangeGroup::Run& run, std::size_t from_change, Refusal refusal) {
  batch.refuse(refusal);
  std::ranges::fill(group_.blocks_of(run).subspan(from_change - run.begin), BlockRef{0});
  const bool unfinished = batch.block > 0 && &batch.events[batch.event] == run.stored;
  if (unfinished) batch.pass_event();
}

/// Records one more copy of a block; the prefix then ends with it. Returns false if the name or the key is another
/// block's.
[[gnu::always_inline]] inline bool KvIndex::State::add_copy(IndexedWorker& worker, const HoldingWorker& holder,
                                                            HolderTable::Prefix& prefix, std::size_t change,
                                                            PlacementHint placement) {
  const NameTable::Lookup& name = group_.names[change];
  if (const BlockRef known = worker.names.find(name); known != 0) [[unlikely]] {
    if (!add_further_copy(worker, name, known, key_of(change))) return false;
    prefix = holders.behind(known);  // the event's next block follows this one
    return true;
  }
  if (!holders.add(holder, prefix, key_of(change), placement)) [[unlikely]]
    return false;
  worker.names.put(name, prefix.last);
  return true;
}

bool KvIndex::State::add_further_copy(IndexedWorker& worker, const NameTable::Lookup& name, BlockRef known,
                                      std::uint64_t key) {
  if (holders.blocks().block(known).key() != key) return false;
  const NameTable::Lookup copies = NameTable::not_fetched(name);
  const std::uint32_t further = worker.further_copies.insert(copies, 1);
  if (further != 0) worker.further_copies.set(copies, further + 1);
  return true;
}

[[gnu::always_inline]] inline void KvIndex::State::remove(IndexedWorker& worker, const ChangeGroup::Run& run) {
  const HoldingWorker holder = worker.holder();
  std::size_t removed = 0;
  for (std::size_t change = run.begin; change != run.end; ++change) {
    removed += drop_copy(worker, holder, group_.names[change]) ? 1 : 0;
  }
  worker.counters.unknown_removals += run.size() - removed;
  worker.counters.removed_blocks += removed;
  changes_in_epoch_ += removed;
}

[[gnu::always_inline]] inline bool KvIndex::State::drop_copy(IndexedWorker& worker, const HoldingWorker& holder,
                                                             const NameTable::Lookup& name) {
  if (!worker.further_copies.empty() && drop_further_copy(worker, name)) [[unlikely]]
    return true;
  if (!take_from_budget(worker)) [[unlikely]]
    ensure_budget(worker, 1);
  const BlockRef block = worker.names.erase(name);
  if (block == 0) [[unlikely]]
    return false;
  holders.drop(holder, block);
  return true;
}

/// As above, for a name that was not prefetched.
bool KvIndex::State::drop_copy(IndexedWorker& worker, NameDigest name) {
  return drop_copy(worker, worker.holder(), NameTable::not_fetched(name));
}

bool KvIndex::State::drop_further_copy(IndexedWorker& worker, const NameTable::Lookup& name) {
  const NameTable::Lookup copies = NameTable::not_fetched(name);
  const std::uint32_t further = worker.further_copies.find(copies);
  if (further > 1) worker.further_copies.set(copies, further - 1);
  if (further == 1) worker.further_copies.erase(copies);
  return further > 0;
}

}  // namespace kvist::kv_index
