#include "kvist/routing/kv_index.h"

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::routing {
std::string_view to_string(Refusal refusal) {
  switch (refusal) {
    case Refusal::kUnknownParent:
      return "unknown_parent";
    case Refusal::kBlockSize:
      return "block_size";
    case Refusal::kExtraKeys:
      return "extra_keys";
    case Refusal::kMedium:
      return "medium";
    case Refusal::kGroup:
      return "group";
    case Refusal::kMalformed:
      return "malformed";
    case Refusal::kConflict:
      return "conflict";
    case Refusal::kCapacity:
      return "capacity";
  }
  return "malformed";
}

KvIndex::KvIndex(Options options) : options_(std::move(options)) {
  KVIST_CHECK(options_.block_size > 0, "a block has at least one token");
}

KvIndex::Worker& KvIndex::worker_at(WorkerId id) {
  if (id.value() >= workers_.size()) workers_.resize(id.value() + 1U);
  return workers_[id.value()];
}

std::optional<Refusal> KvIndex::apply(WorkerId worker, const kv::KvEvent& event) {
  Worker& state = worker_at(worker);
  std::optional<Refusal> refusal;
  if (const auto* stored = std::get_if<kv::BlockStored>(&event)) {
    refusal = store(worker, state, *stored);
  } else if (const auto* removed = std::get_if<kv::BlockRemoved>(&event)) {
    refusal = remove(worker, state, *removed);
  } else {
    clear(worker);
    ++state.counters.clears;
  }
  if (refusal) ++state.counters.refused[static_cast<std::size_t>(*refusal)];
  return refusal;
}

std::optional<Refusal> KvIndex::check(const Worker& worker, const kv::BlockStored& event,
                                      const NamedBlock* parent) const {
  if (event.group != 0) return Refusal::kGroup;
  if (event.medium != kv::Medium::kDevice) return Refusal::kMedium;
  if (event.block_size != options_.block_size) return Refusal::kBlockSize;
  if (event.other_extra_keys) return Refusal::kExtraKeys;
  if (event.tokens.size() / event.block_size != event.hashes.size() || event.tokens.size() % event.block_size != 0) {
    return Refusal::kMalformed;
  }
  if (event.parent && parent == nullptr) return Refusal::kUnknownParent;
  if (worker.blocks.size() + event.hashes.size() > options_.max_blocks_per_worker) return Refusal::kCapacity;
  return std::nullopt;
}

std::optional<Refusal> KvIndex::store(WorkerId id, Worker& worker, const kv::BlockStored& event) {
  const NamedBlock* const parent = event.parent ? worker.blocks.find(*event.parent) : nullptr;
  if (const auto refusal = check(worker, event, parent)) return refusal;
  kv::BlockHash key =
      parent != nullptr
          ? parent->key
          : kv::root_hash({.model = options_.model, .lora = event.lora_name, .cache_salt = event.cache_salt});
  const std::span<const TokenId> tokens(event.tokens);
  for (std::size_t i = 0; i < event.hashes.size(); ++i) {
    key = kv::chain_hash(key, tokens.subspan(i * options_.block_size, options_.block_size));
    if (!add_copy(id, worker, event.hashes[i], key)) return Refusal::kConflict;
    ++worker.counters.stored_blocks;
  }
  return std::nullopt;
}

bool KvIndex::add_copy(WorkerId id, Worker& worker, kv::ExternalHash name, kv::BlockHash key) {
  const auto [block, is_new] = worker.blocks.try_emplace(name);
  if (is_new) block->key = key;
  if (block->key != key) return false;
  ++block->copies;
  if (!is_new) return true;
  WorkerSet& holders = holders_[key];
  if (holders.contains(id)) {
    ++worker.further_names[key];
  } else {
    holders.insert(id);
  }
  return true;
}

std::optional<Refusal> KvIndex::remove(WorkerId id, Worker& worker, const kv::BlockRemoved& event) {
  if (event.group != 0) return Refusal::kGroup;
  if (event.medium != kv::Medium::kDevice) return Refusal::kMedium;
  for (const kv::ExternalHash name : event.hashes) {
    NamedBlock* const block = worker.blocks.find(name);
    if (block == nullptr) {
      ++worker.counters.unknown_removals;
      continue;
    }
    ++worker.counters.removed_blocks;
    if (--block->copies > 0) continue;
    const kv::BlockHash key = block->key;
    worker.blocks.erase(name);
    drop_name(id, worker, key);
  }
  return std::nullopt;
}

void KvIndex::drop_name(WorkerId id, Worker& worker, kv::BlockHash key) {
  if (std::uint32_t* const further = worker.further_names.find(key)) {
    if (--*further == 0) worker.further_names.erase(key);
    return;
  }
  WorkerSet* const holders = holders_.find(key);
  KVIST_CHECK(holders != nullptr, "a held block has an entry in the index");
  holders->erase(id);
  if (holders->empty()) holders_.erase(key);
}

void KvIndex::clear(WorkerId id) {
  Worker& worker = worker_at(id);
  worker.blocks.for_each([&](kv::ExternalHash, const NamedBlock& block) { drop_name(id, worker, block.key); });
  worker.blocks.clear();
  worker.further_names.clear();
}

void KvIndex::prefetch(WorkerId worker, const kv::KvEvent& event) const {
  if (worker.value() >= workers_.size()) return;
  const Worker& state = workers_[worker.value()];
  if (const auto* stored = std::get_if<kv::BlockStored>(&event)) {
    if (stored->parent) state.blocks.prefetch(*stored->parent);
    if (!stored->hashes.empty()) state.blocks.prefetch(stored->hashes.front());
  }
}

void KvIndex::match(std::span<const kv::BlockHash> hashes, std::span<std::uint32_t> depths) const {
  std::ranges::fill(depths, 0U);
  std::uint32_t depth = 0;
  const auto reached = [&](WorkerId worker) {
    if (worker.value() < depths.size()) depths[worker.value()] = depth;
  };
  WorkerSet alive;  // the workers that hold the first `depth` blocks
  for (const kv::BlockHash hash : hashes) {
    const WorkerSet* const holders = holders_.find(hash);
    if (holders == nullptr) break;
    if (depth == 0) {
      alive = *holders;
    } else {
      alive.intersect(*holders, reached);
      if (alive.empty()) return;
    }
    ++depth;
  }
  alive.for_each(reached);
}

std::size_t KvIndex::worker_blocks(WorkerId worker) const {
  return worker.value() < workers_.size() ? workers_[worker.value()].blocks.size() : 0;
}

const KvIndexCounters& KvIndex::counters(WorkerId worker) const {
  static const KvIndexCounters kNone;
  return worker.value() < workers_.size() ? workers_[worker.value()].counters : kNone;
}

}  // namespace kvist::routing
