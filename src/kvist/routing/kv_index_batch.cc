// Events become changes: a batch of them goes into the index in groups.
#include <algorithm>
#include <variant>

#include "kvist/routing/kv_index_state.h"

namespace kvist::routing {
namespace {

// The content of so many events is on its way before it is read: engines that evict block by block send many of one.
constexpr std::size_t kEventsAhead = 8;

void fetch_content(const kv::KvEvent& event) {
  if (const auto* const stored = std::get_if<kv::BlockStored>(&event)) {
    __builtin_prefetch(stored->hashes.data());
    const char* const tokens = reinterpret_cast<const char*>(stored->tokens.data());
    __builtin_prefetch(tokens);
    __builtin_prefetch(tokens + 64);
    __builtin_prefetch(tokens + 128);
  } else if (const auto* const removed = std::get_if<kv::BlockRemoved>(&event)) {
    __builtin_prefetch(removed->hashes.data());
  }
}

}  // namespace

/// Events of one worker that are being taken in.
struct KvIndex::State::Batch {
  IndexedWorker& worker;
  std::span<const kv::KvEvent> events;
  std::optional<Refusal>* reason = nullptr;
  std::size_t refused = 0;
  // What comes next: a block of an event.
  std::size_t event = 0;
  std::size_t block = 0;
  // Of the event whose first blocks are in the index: its last key, the likely number of its last block in a chunk, and
  // what follows it.
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
};

std::size_t KvIndex::State::apply(WorkerId id, std::span<const kv::KvEvent> events, std::optional<Refusal>* reason) {
  KnownWorker& known = worker_at(id);
  Batch batch{.worker = *known.worker, .events = events, .reason = reason, .prefix = {}};
  for (reclaim(); collect(batch); reclaim()) {
    fetch_next_lines();
    find_names(batch);
    find_keys(batch);
    make(batch);
    economize(batch.worker);
  }
  known.directory = known.worker->names.directory_memory();
  return batch.refused;
}

/// The next group, with the memory of its names on its way; false at the end.
bool KvIndex::State::collect(Batch& batch) {
  group_.clear();
  group_room_ = room_for_changes(batch.worker);
  while (!group_.full() && batch.event < batch.events.size() && collect_event(batch)) {
  }
  return !group_.empty();
}

/// False where the event has to wait for what the group does.
bool KvIndex::State::collect_event(Batch& batch) {
  const kv::KvEvent& event = batch.events[batch.event];
  if (batch.event + kEventsAhead < batch.events.size()) fetch_content(batch.events[batch.event + kEventsAhead]);
  if (const auto* const stored = std::get_if<kv::BlockStored>(&event)) return collect(batch, *stored);
  if (const auto* const removed = std::get_if<kv::BlockRemoved>(&event)) {
    collect(batch, *removed);
    return true;
  }
  if (!group_.empty()) return false;
  clear(batch.worker);
  ++batch.worker.counters.clears;
  batch.pass_event();
  return true;
}

bool KvIndex::State::collect(Batch& batch, const kv::BlockStored& event) {
  const std::size_t blocks = event.hashes.size();
  IndexedWorker& worker = batch.worker;
  if (batch.block == 0) {
    if (const auto refusal = check_form(event)) {
      batch.refuse(*refusal);
      batch.pass_event();
      return true;
    }
    if (!group_.empty() && !fits_in_group(worker, blocks)) return false;
    if (group_.empty()) {
      const std::size_t wanted = std::min(blocks, options.max_blocks_per_worker);
      if (group_room_ < 2 * wanted) {
        make_room(worker, wanted);
        group_room_ = room_for_changes(worker);
      }
      if (const auto refusal = check_limit(worker, event)) {
        batch.refuse(*refusal);
        batch.pass_event();
        return true;
      }
    }
  }
  const ChangeGroup::Change* parent_change = nullptr;
  if (batch.block == 0 && event.parent) {
    const ChangeGroup::Found found = group_.find(NameDigest(event.parent->value()));
    if (found.change != nullptr && found.run->stored == nullptr) return false;  // it is removed first
    parent_change = found.change;
  }
  ChangeGroup::Run& run = group_.begin_run(&event, batch.block);
  if (run.has_parent()) {
    worker.names.prefetch(NameDigest(event.parent->value()), run.parent_name);
    run.parent_change = parent_change;
  }
  const std::size_t taken = std::min(blocks - batch.block, ChangeGroup::kChanges - group_.size);
  for (const kv::ExternalHash name : std::span(event.hashes).subspan(batch.block, taken)) {
    group_.add(worker.names, NameDigest(name.value()));
  }
  run.end = group_.size;
  batch.pass(taken, blocks);
  return true;
}

void KvIndex::State::collect(Batch& batch, const kv::BlockRemoved& event) {
  IndexedWorker& worker = batch.worker;
  if (event.group != 0 || event.medium != kv::Medium::kDevice) {
    batch.refuse(event.group != 0 ? Refusal::kGroup : Refusal::kMedium);
    return batch.pass_event();
  }
  const ChangeGroup::Run* const last = group_.empty() ? nullptr : &group_.runs[group_.run_count - 1];
  const bool further = last != nullptr && last->stored == nullptr;
  ChangeGroup::Run& run = further ? group_.runs[group_.run_count - 1] : group_.begin_run(nullptr, 0);
  const std::size_t taken = std::min(event.hashes.size() - batch.block, ChangeGroup::kChanges - group_.size);
  for (const kv::ExternalHash name : std::span(event.hashes).subspan(batch.block, taken)) {
    group_.add(worker.names, NameDigest(name.value()));
  }
  run.end = group_.size;
  batch.pass(taken, event.hashes.size());
}

std::optional<Refusal> KvIndex::State::check_form(const kv::BlockStored& event) const {
  if (event.group != 0) return Refusal::kGroup;
  if (event.medium != kv::Medium::kDevice) return Refusal::kMedium;
  if (event.block_size != options.block_size) return Refusal::kBlockSize;
  if (event.other_extra_keys) return Refusal::kExtraKeys;
  if (event.tokens.size() != event.hashes.size() * event.block_size) return Refusal::kMalformed;
  return std::nullopt;
}

/// Whether an event with so many blocks may go in with the group, whatever becomes of what is before it.
bool KvIndex::State::fits_in_group(const IndexedWorker& worker, std::size_t event_blocks) const {
  const std::size_t blocks = group_.size + event_blocks;
  return 2 * blocks <= group_room_ && worker.names.size() + blocks <= options.max_blocks_per_worker;
}

std::optional<Refusal> KvIndex::State::check_limit(const IndexedWorker& worker, const kv::BlockStored& event) const {
  if (worker.names.size() + event.hashes.size() <= options.max_blocks_per_worker) return std::nullopt;
  const bool known = !event.parent || worker.names.find(NameDigest(event.parent->value())) != 0;
  return known ? Refusal::kCapacity : Refusal::kUnknownParent;
}

/// Second stage: what is searched or put past the end of a cache line.
void KvIndex::State::fetch_next_lines() {
  for (const ChangeGroup::Change& change : group_.all_changes()) NameTable::prefetch_next(change.name);
  for (const ChangeGroup::Run& run : group_.all_runs()) {
    if (run.has_parent()) NameTable::prefetch_next(run.parent_name);
  }
}

/// Third stage: what the names mean now. The blocks of parents and of what is removed are on their way.
void KvIndex::State::find_names(Batch& batch) {
  const BlockChains& blocks = holders.blocks();
  NameTable& names = batch.worker.names;
  for (ChangeGroup::Run& run : group_.all_runs()) {
    if (run.stored == nullptr) {
      for (ChangeGroup::Change& change : group_.of(run)) {
        change.block = names.find(change.name);
        if (change.block != 0) blocks.prefetch(change.block);
      }
    } else if (run.has_parent() && run.parent_change == nullptr) {
      run.parent = names.find(run.parent_name);
      if (run.parent != 0) blocks.prefetch(run.parent);
    }
  }
}

/// Fourth stage: the keys of what is stored. Where blocks are or will be first in a chunk, the hash table is on its
/// way.
void KvIndex::State::find_keys(Batch& batch) {
  const BlockChains& blocks = holders.blocks();
  for (ChangeGroup::Run& run : group_.all_runs()) {
    if (run.stored == nullptr) {
      for (const ChangeGroup::Change& change : group_.of(run)) {
        const bool first = change.block != 0 && BlockChains::number_of(change.block) == 0;
        if (first) group_.add_head(blocks.prefetch_head(blocks.block(change.block).key()));
      }
      continue;
    }
    if (!run.begins()) {
      run.parent_key = batch.key;
    } else if (run.parent_change != nullptr) {
      run.parent_key = run.parent_change->key;
    } else if (run.has_parent()) {
      run.parent_key = run.parent != 0 ? blocks.block(run.parent).key() : 0;
    } else {
      run.parent_key = root_of(*run.stored);
    }
    set_keys(batch, run);
    fetch_heads(batch, run);
  }
}

void KvIndex::State::fetch_heads(Batch& batch, const ChangeGroup::Run& run) {
  const BlockChains& blocks = holders.blocks();
  const std::span<ChangeGroup::Change> changes = group_.of(run);
  if (changes.empty()) return;
  std::uint32_t number = 0;
  if (!run.begins()) {
    number = BlockChains::likely_number_behind(batch.number);
  } else if (run.parent_change != nullptr) {
    number = BlockChains::likely_number_behind(run.parent_change->number);
  } else {
    number = blocks.number_behind(run.parent, changes[0].key);
  }
  for (ChangeGroup::Change& change : changes) {
    change.number = number;
    if (number == 0) group_.add_head(blocks.prefetch_head(change.key));
    number = BlockChains::likely_number_behind(number);
  }
  batch.number = changes.back().number;
}

void KvIndex::State::set_keys(Batch& batch, const ChangeGroup::Run& run) {
  const std::span<const TokenId> tokens(run.stored->tokens);
  std::size_t at = run.block * options.block_size;
  kv::BlockHash key(run.parent_key);
  for (ChangeGroup::Change& change : group_.of(run)) {
    key = kv::chain_hash(key, tokens.subspan(at, options.block_size));
    key = kv::BlockHash(BlockChains::valid(key.value()));
    change.key = key.value();
    at += options.block_size;
  }
  batch.key = key.value();
}

std::uint64_t KvIndex::State::root_of(const kv::BlockStored& event) const {
  if (event.lora_name.empty() && event.cache_salt.empty()) return plain_root_.value();
  return kv::root_hash({.model = options.model, .lora = event.lora_name, .cache_salt = event.cache_salt}).value();
}

/// Last stage.
void KvIndex::State::make(Batch& batch) {
  for (const HeadLine* const line : group_.all_heads()) SlotSegment<HeadLine>::prefetch_next(*line);
  // Twice, as find_room() does.
  room_ = group_room_ >= 2 * ChangeGroup::kChanges ? ChangeGroup::kChanges : 0;
  const std::uint64_t evictions_before = evictions;
  for (ChangeGroup::Run& run : group_.all_runs()) {
    if (run.stored == nullptr) {
      remove(batch.worker, group_.of(run));
      continue;
    }
    const bool evicted = evictions != evictions_before;
    if (run.has_parent() && (run.parent_change != nullptr || evicted)) find_parent(batch, run, evicted);
    const std::optional<Refusal> refusal = store(batch, run);
    if (!refusal) [[likely]]
      continue;
    batch.refuse(*refusal);
    const bool unfinished = batch.block > 0 && std::get_if<kv::BlockStored>(&batch.events[batch.event]) == run.stored;
    if (unfinished) batch.pass_event();
  }
}

/// What the parent's name means now. Where that is not what the keys were made with, they are made again.
void KvIndex::State::find_parent(Batch& batch, ChangeGroup::Run& run, bool evicted) {
  const BlockRef stored = run.parent_change != nullptr && !evicted ? run.parent_change->block : 0;
  run.parent = stored != 0 ? stored : batch.worker.names.find(run.parent_name);
  if (run.parent == 0) return;
  const std::uint64_t key = stored != 0 ? run.parent_change->key : holders.blocks().block(run.parent).key();
  if (key == run.parent_key) [[likely]]
    return;
  const std::uint64_t last_key = batch.key;
  run.parent_key = key;
  set_keys(batch, run);
  const bool last = &run == &group_.runs[group_.run_count - 1];
  if (!last) batch.key = last_key;
}

std::optional<Refusal> KvIndex::State::store(Batch& batch, const ChangeGroup::Run& run) {
  if (run.begins()) {
    if (!run.has_parent()) {
      batch.prefix = holders.root();
    } else if (run.parent == 0) {
      return Refusal::kUnknownParent;
    } else {
      batch.prefix = holders.behind(run.parent);
    }
  }
  IndexedWorker& worker = batch.worker;
  const HoldingWorker holder = worker.holder();
  HolderTable::Prefix prefix = batch.prefix;
  std::size_t stored = 0;
  std::optional<Refusal> refusal;
  const std::span<ChangeGroup::Change> changes = group_.of(run);
  for (ChangeGroup::Change& change : changes) {
    if (!take_room(worker)) [[unlikely]] {
      refusal = Refusal::kCapacity;
      break;
    }
    if (!add_copy(worker, holder, change, prefix, changes.size() - stored)) [[unlikely]] {
      refusal = Refusal::kConflict;
      break;
    }
    change.block = prefix.last;
    ++stored;
  }
  batch.prefix = prefix;
  worker.counters.stored_blocks += stored;
  changes_in_epoch_ += stored;
  return refusal;
}

[[gnu::always_inline]] inline bool KvIndex::State::add_copy(IndexedWorker& worker, const HoldingWorker& holder,
                                                            const ChangeGroup::Change& change,
                                                            HolderTable::Prefix& prefix, std::size_t coming) {
  if (const BlockRef known = worker.names.find(change.name); known != 0) [[unlikely]]
    return add_further_copy(worker, change, known, prefix);
  if (!holders.add(holder, prefix, change.key, coming)) [[unlikely]]
    return false;
  worker.names.put(change.name, prefix.last);
  return true;
}

bool KvIndex::State::add_further_copy(IndexedWorker& worker, const ChangeGroup::Change& change, BlockRef known,
                                      HolderTable::Prefix& prefix) {
  if (holders.blocks().block(known).key() != change.key) return false;
  const NameTable::Ahead copies = NameTable::not_fetched(change.name);
  const std::uint32_t further = worker.further_copies.insert(copies, 1);
  if (further != 0) worker.further_copies.set(copies, further + 1);
  prefix = holders.behind(known);  // what follows in this event goes on behind it
  return true;
}

void KvIndex::State::remove(IndexedWorker& worker, std::span<const ChangeGroup::Change> changes) {
  std::size_t removed = 0;
  for (const ChangeGroup::Change& change : changes) removed += drop_copy(worker, change) ? 1 : 0;
  worker.counters.unknown_removals += changes.size() - removed;
  worker.counters.removed_blocks += removed;
  changes_in_epoch_ += removed;
}

bool KvIndex::State::drop_copy(IndexedWorker& worker, const ChangeGroup::Change& change) {
  if (!worker.further_copies.empty()) [[unlikely]] {
    const NameTable::Ahead copies = NameTable::not_fetched(change.name);
    const std::uint32_t further = worker.further_copies.find(copies);
    if (further > 1) worker.further_copies.set(copies, further - 1);
    if (further == 1) worker.further_copies.erase(copies);
    if (further > 0) return true;
  }
  if (!take_room(worker)) make_room(worker, 1);
  const BlockRef block = worker.names.erase(change.name);
  if (block == 0) return false;
  holders.drop(worker.holder(), block);
  return true;
}

}  // namespace kvist::routing
