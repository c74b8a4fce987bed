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
    __builtin_prefetch(stored->tokens.data());
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
  // Of the event whose first blocks are in the index: its last key, and what follows it.
  std::uint64_t key = 0;
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
  reclaim();
  room_ = 0;
  Batch batch{.worker = worker_at(id), .events = events, .reason = reason, .key = 0, .prefix = {}};
  while (collect(batch)) {
    find_names(batch);
    find_keys(batch);
    make(batch);
  }
  return batch.refused;
}

/// The next group, with the tags of its names on their way; false at the end.
bool KvIndex::State::collect(Batch& batch) {
  group_.clear();
  bool goes_on = true;
  while (goes_on && batch.event < batch.events.size() && !group_.full()) {
    const kv::KvEvent& event = batch.events[batch.event];
    if (batch.event + kEventsAhead < batch.events.size()) fetch_content(batch.events[batch.event + kEventsAhead]);
    if (const auto* const stored = std::get_if<kv::BlockStored>(&event)) {
      goes_on = collect(batch, *stored);
    } else if (const auto* const removed = std::get_if<kv::BlockRemoved>(&event)) {
      collect(batch, *removed);
    } else if (group_.empty()) {
      clear(batch.worker);
      ++batch.worker.counters.clears;
      batch.pass_event();
    } else {
      goes_on = false;
    }
  }
  return !group_.empty();
}

/// False where the event has to wait for what the group does.
bool KvIndex::State::collect(Batch& batch, const kv::BlockStored& event) {
  const std::size_t blocks = event.hashes.size();
  if (batch.block == 0) {
    if (const auto refusal = check_form(event)) {
      batch.refuse(*refusal);
      batch.pass_event();
      return true;
    }
    if (!group_.empty() && depends_on_group(batch, event)) return false;
    if (group_.empty()) {
      make_room(batch.worker, std::min(blocks, options.max_blocks_per_worker));
      if (const auto refusal = check_limit(batch.worker, event)) {
        batch.refuse(*refusal);
        batch.pass_event();
        return true;
      }
    }
  }
  ChangeGroup::Run& run = group_.begin_run(&event, batch.block);
  if (batch.block == 0 && event.parent) {
    batch.worker.names.prefetch_ahead(NameDigest(event.parent->value()), run.parent_name);
  }
  const std::size_t taken = std::min(blocks - batch.block, ChangeGroup::kChanges - group_.size);
  for (const kv::ExternalHash name : std::span(event.hashes).subspan(batch.block, taken)) {
    group_.add(run, batch.worker.names, NameDigest(name.value()));
  }
  batch.pass(taken, blocks);
  return true;
}

void KvIndex::State::collect(Batch& batch, const kv::BlockRemoved& event) {
  if (event.group != 0 || event.medium != kv::Medium::kDevice) {
    batch.refuse(event.group != 0 ? Refusal::kGroup : Refusal::kMedium);
    return batch.pass_event();
  }
  const bool further = group_.run_count > 0 && group_.runs[group_.run_count - 1].stored == nullptr;
  ChangeGroup::Run& run = further ? group_.runs[group_.run_count - 1] : group_.begin_run(nullptr, 0);
  const std::size_t taken = std::min(event.hashes.size() - batch.block, ChangeGroup::kChanges - group_.size);
  for (const kv::ExternalHash name : std::span(event.hashes).subspan(batch.block, taken)) {
    group_.add(run, batch.worker.names, NameDigest(name.value()));
  }
  batch.pass(taken, event.hashes.size());
}

std::optional<Refusal> KvIndex::State::check_form(const kv::BlockStored& event) const {
  if (event.group != 0) return Refusal::kGroup;
  if (event.medium != kv::Medium::kDevice) return Refusal::kMedium;
  if (event.block_size != options.block_size) return Refusal::kBlockSize;
  if (event.other_extra_keys) return Refusal::kExtraKeys;
  if (event.tokens.size() / event.block_size != event.hashes.size() || event.tokens.size() % event.block_size != 0) {
    return Refusal::kMalformed;
  }
  return std::nullopt;
}

/// Whether what becomes of the event may depend on what the group changes: its parent, or how much there is.
bool KvIndex::State::depends_on_group(const Batch& batch, const kv::BlockStored& event) const {
  const std::size_t blocks = group_.size + event.hashes.size();
  return (event.parent && group_.may_change(NameDigest(event.parent->value()))) || !fits(batch.worker, blocks) ||
         batch.worker.names.size() + blocks > options.max_blocks_per_worker;
}

std::optional<Refusal> KvIndex::State::check_limit(const IndexedWorker& worker, const kv::BlockStored& event) const {
  if (worker.names.size() + event.hashes.size() <= options.max_blocks_per_worker) return std::nullopt;
  const bool known = !event.parent || worker.names.find(NameDigest(event.parent->value())) != 0;
  return known ? Refusal::kCapacity : Refusal::kUnknownParent;
}

/// Second stage: what the names mean now. Of parents and of what is removed the tags of the keys are on their way.
void KvIndex::State::find_names(Batch& batch) {
  NameTable& names = batch.worker.names;
  for (ChangeGroup::Run& run : group_.all_runs()) names.prefetch_entry(run.parent_name);
  for (ChangeGroup::Change& change : group_.all_changes()) names.prefetch_entry(change.name);
  for (ChangeGroup::Run& run : group_.all_runs()) {
    if (run.stored == nullptr) {
      for (ChangeGroup::Change& change : group_.of(run)) holders.prefetch(names.find(change.name), change.key);
    } else if (run.begins() && run.stored->parent) {
      holders.prefetch(names.find(run.parent_name), run.parent);
    }
  }
}

/// Third stage: the keys of what is stored; then all entries of keys are on their way.
void KvIndex::State::find_keys(Batch& batch) {
  for (const ChangeGroup::Run& run : group_.all_runs()) {
    if (run.stored == nullptr) continue;
    kv::BlockHash key(run.begins() ? first_parent(run) : batch.key);
    const std::span<const TokenId> tokens(run.stored->tokens);
    std::size_t at = run.block * options.block_size;
    for (ChangeGroup::Change& change : group_.of(run)) {
      key = kv::chain_hash(key, tokens.subspan(at, options.block_size));
      key = kv::BlockHash(KeyTable::valid(key.value()));
      holders.prefetch(key.value(), change.key);
      at += options.block_size;
    }
    batch.key = key.value();
  }
  for (ChangeGroup::Run& run : group_.all_runs()) holders.prefetch_entry(run.parent);
  for (ChangeGroup::Change& change : group_.all_changes()) holders.prefetch_entry(change.key);
}

std::uint64_t KvIndex::State::first_parent(const ChangeGroup::Run& run) const {
  const kv::BlockStored& event = *run.stored;
  if (event.parent) return run.parent.hash;
  if (event.lora_name.empty() && event.cache_salt.empty()) return plain_root_.value();
  return kv::root_hash({.model = options.model, .lora = event.lora_name, .cache_salt = event.cache_salt}).value();
}

/// Last stage.
void KvIndex::State::make(Batch& batch) {
  const std::uint64_t evictions_before = evictions;
  for (ChangeGroup::Run& run : group_.all_runs()) {
    if (run.stored == nullptr) {
      remove(batch.worker, group_.of(run));
      continue;
    }
    if (evictions != evictions_before && run.begins() && batch.worker.names.find(run.parent_name) == 0) {
      run.parent.hash = 0;  // went while room was made for a removal
    }
    const std::optional<Refusal> refusal = store(batch, run);
    if (!refusal) [[likely]]
      continue;
    batch.refuse(*refusal);
    const bool unfinished = batch.block > 0 && std::get_if<kv::BlockStored>(&batch.events[batch.event]) == run.stored;
    if (unfinished) batch.pass_event();
  }
}

std::optional<Refusal> KvIndex::State::store(Batch& batch, const ChangeGroup::Run& run) {
  if (run.begins()) {
    if (!run.stored->parent) {
      batch.prefix = holders.root();
    } else if (run.parent.hash == 0) {
      return Refusal::kUnknownParent;
    } else {
      batch.prefix = holders.behind(run.parent);
    }
  }
  IndexedWorker& worker = batch.worker;
  std::size_t stored = 0;
  std::optional<Refusal> refusal;
  for (const ChangeGroup::Change& change : group_.of(run)) {
    if (!take_room(worker)) {
      refusal = Refusal::kCapacity;
      break;
    }
    if (!add_copy(worker, change, batch.prefix)) {
      refusal = Refusal::kConflict;
      break;
    }
    ++stored;
  }
  worker.counters.stored_blocks += stored;
  changes_in_epoch_ += stored;
  return refusal;
}

bool KvIndex::State::add_copy(IndexedWorker& worker, const ChangeGroup::Change& change, HolderTable::Prefix& prefix) {
  const std::uint64_t known = worker.names.insert(change.name, change.key.hash);
  if (known == 0) [[likely]] {
    holders.add(worker.holder(), prefix, change.key);
    return true;
  }
  if (known != change.key.hash) return false;
  const NameTable::Ahead copies = NameTable::not_fetched(change.name);
  const std::uint64_t further = worker.further_copies.insert(copies, 1);
  if (further != 0) worker.further_copies.set(copies, further + 1);
  prefix = holders.behind(change.key);  // what follows in this event goes on behind it
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
    const std::uint64_t further = worker.further_copies.find(copies);
    if (further > 1) worker.further_copies.set(copies, further - 1);
    if (further == 1) worker.further_copies.erase(copies);
    if (further > 0) return true;
  }
  if (!take_room(worker)) make_room(worker, 1);
  const std::uint64_t key = worker.names.erase(change.name);
  if (key == 0) return false;
  if (key == change.key.hash) [[likely]] {
    holders.drop(worker.holder(), change.key);
  } else {
    holders.drop(worker.holder(), HolderTable::not_fetched(key));
  }
  return true;
}

}  // namespace kvist::routing
