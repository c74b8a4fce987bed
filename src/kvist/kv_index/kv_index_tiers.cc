// Blocks outside of device memory, and blocks that events name without their tokens: one change after the other,
// because such events are few beside those of device memory.
#include <memory>
#include <new>

#include "kvist/base/check.h"
#include "kvist/kv_index/kv_index_state.h"

namespace kvist::kv_index {

IndexedWorker& KvIndex::State::lower_at(WorkerId id, kv::Medium medium) {
  KVIST_CHECK(id.value() < options.workers && medium != kv::Medium::kDevice, "lower tiers have holders of their own");
  const std::size_t at = std::size_t{id.value()} * kLowerTiers + static_cast<std::size_t>(medium) - 1;
  if (at >= lower_.size()) {
    const std::size_t before = lower_.capacity();
    lower_.resize(at + 1);
    memory.count(static_cast<std::ptrdiff_t>((lower_.capacity() - before) * sizeof(lower_[0])));
  }
  if (lower_[at] == nullptr) {
    const auto holder = static_cast<std::uint32_t>(options.workers + at);
    lower_[at] = new (memory.allocate(sizeof(IndexedWorker))) IndexedWorker(memory, holder);
    has_lower.store(true, std::memory_order_release);
  }
  return *lower_[at];
}

IndexedWorker* KvIndex::State::find_record(WorkerId id, kv::Medium medium) const {
  if (medium == kv::Medium::kDevice) return id.value() < workers_.size() ? workers_[id.value()].worker : nullptr;
  const std::size_t at = std::size_t{id.value()} * kLowerTiers + static_cast<std::size_t>(medium) - 1;
  return id.value() < options.workers && at < lower_.size() ? lower_[at] : nullptr;
}

BlockRef KvIndex::State::find_in_any_tier(WorkerId id, NameDigest name) const {
  for (const kv::Medium medium : {kv::Medium::kDevice, kv::Medium::kHost, kv::Medium::kDisk, kv::Medium::kRemote}) {
    const IndexedWorker* const record = find_record(id, medium);
    const BlockRef block = record != nullptr ? record->names.find(name) : 0;
    if (block != 0) return block;
  }
  return 0;
}

BlockRef KvIndex::State::find_below(const IndexedWorker& worker, const NameTable::Lookup& name) const {
  for (const kv::Medium medium : {kv::Medium::kHost, kv::Medium::kDisk, kv::Medium::kRemote}) {
    const IndexedWorker* const record = find_record(WorkerId(worker.id), medium);
    const BlockRef block = record != nullptr ? record->names.find(NameTable::not_fetched(name)) : 0;
    if (block != 0) return block;
  }
  return 0;
}

void KvIndex::State::clear_lower(WorkerId id) {
  for (const kv::Medium medium : {kv::Medium::kHost, kv::Medium::kDisk, kv::Medium::kRemote})
    if (IndexedWorker* const record = find_record(id, medium)) clear(*record);
}

KvIndexCounters& KvIndex::State::counters_of(IndexedWorker& worker) {
  const bool lower = options.workers > 0 && worker.id >= options.workers && has_lower.load(std::memory_order_relaxed);
  return lower ? workers_[(worker.id - options.workers) / kLowerTiers].worker->counters : worker.counters;
}

/// Changes are taken from the budget one at a time.
void KvIndex::State::begin_single_changes(const IndexedWorker& worker, std::size_t changes) {
  ensure_budget(worker, changes);
  group_within_budget_ = false;
  changes_left_ = 0;
}

std::optional<Refusal> KvIndex::State::apply_alone(WorkerId id, const kv::KvEventView& event) {
  const bool is_lower = event.medium != kv::Medium::kDevice;
  if (is_lower && id.value() >= options.workers) return Refusal::kMedium;
  if (event.kind == kv::KvEventView::Kind::kRemoved) {
    remove_alone(id, event);
    return std::nullopt;
  }
  if (event.other_extra_keys) return Refusal::kExtraKeys;
  // These checks come before lower_at(), because the first record of a tier makes every later look-up distinguish
  // tiers.
  if (!event.tokens.empty() && event.block_size != options.block_size) return Refusal::kBlockSize;
  if (!event.tokens.empty() && event.parent && find_in_any_tier(id, NameDigest(event.parent->value())) == 0)
    return Refusal::kUnknownParent;
  IndexedWorker& record = is_lower ? lower_at(id, event.medium) : *worker_at(id).worker;
  const std::optional<Refusal> refusal =
      event.tokens.empty() ? store_named(id, record, event) : store_alone(id, record, event);
  holders.keep_time();
  economize(record);
  return refusal;
}

/// Stores blocks with their tokens.
std::optional<Refusal> KvIndex::State::store_alone(WorkerId id, IndexedWorker& record, const kv::KvEventView& event) {
  const std::size_t blocks = event.hashes.size();
  if (event.tokens.size() != blocks * event.block_size) return Refusal::kMalformed;
  if (record.names.size() + blocks > options.max_blocks_per_worker) return Refusal::kCapacity;
  begin_single_changes(record, blocks);
  HolderTable::Prefix prefix = holders.root();
  kv::BlockHash key(root_of(event));
  if (event.parent) {
    const BlockRef parent = find_in_any_tier(id, NameDigest(event.parent->value()));
    if (parent == 0) return Refusal::kUnknownParent;
    prefix = holders.behind(parent);
    key = kv::BlockHash(holders.blocks().block(parent).key());
  }
  KvIndexCounters& counters = counters_of(record);
  for (std::size_t i = 0; i < blocks; ++i) {
    if (!take_from_budget(record)) return Refusal::kCapacity;
    key = kv::chain_hash(key, event.tokens.subspan(i * event.block_size, event.block_size));
    key = kv::BlockHash(BlockChains::valid(key.value()));
    if (!hold(record, prefix, NameDigest(event.hashes[i].value()), key.value(), {.coming = blocks - i, .grows = false}))
      return Refusal::kConflict;
    ++counters.stored_blocks;
    ++changes_in_epoch_;
  }
  return std::nullopt;
}

/// Stores blocks that the event only names: they are those that the worker has under these names, in whichever tier.
std::optional<Refusal> KvIndex::State::store_named(WorkerId id, IndexedWorker& record, const kv::KvEventView& event) {
  if (record.names.size() + event.hashes.size() > options.max_blocks_per_worker) return Refusal::kCapacity;
  begin_single_changes(record, event.hashes.size());
  KvIndexCounters& counters = counters_of(record);
  std::optional<Refusal> refusal;
  for (const kv::ExternalHash hash : event.hashes) {
    const NameTable::Lookup name = NameTable::not_fetched(NameDigest(hash.value()));
    const BlockRef known = record.names.find(name);
    const BlockRef block = known != 0 ? known : find_in_any_tier(id, NameDigest(hash.value()));
    if (block == 0) {
      refusal = Refusal::kUnknownBlock;
      continue;
    }
    if (!take_from_budget(record)) return Refusal::kCapacity;
    if (known != 0) {
      static_cast<void>(add_further_copy(record, name, known, holders.blocks().block(known).key()));
    } else {
      holders.add_known(record.holder(), block);
      record.names.insert(name, block);
    }
    ++counters.stored_blocks;
    ++changes_in_epoch_;
  }
  return refusal;
}

void KvIndex::State::remove_alone(WorkerId id, const kv::KvEventView& event) {
  KvIndexCounters& counters = workers_[id.value()].worker->counters;
  IndexedWorker* const record = find_record(id, event.medium);
  if (record == nullptr) {
    counters.unknown_removals += event.hashes.size();
    return;
  }
  group_within_budget_ = false;
  changes_left_ = 0;
  std::size_t removed = 0;
  for (const kv::ExternalHash hash : event.hashes) removed += drop_copy(*record, NameDigest(hash.value())) ? 1 : 0;
  counters.removed_blocks += removed;
  counters.unknown_removals += event.hashes.size() - removed;
  changes_in_epoch_ += removed;
  economize(*record);
}

}  // namespace kvist::kv_index
