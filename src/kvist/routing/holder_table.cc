#include "kvist/routing/holder_table.h"

#include <algorithm>
#include <array>

#include "kvist/base/check.h"

namespace kvist::routing {
namespace {

// A tick passes when a 64th of the index was stored anew.
constexpr std::size_t kTicksPerTurnover = 64;
constexpr std::size_t kLeastPerTick = 256;
// Blocks that nobody has looked up yet are taken for this old: half a turnover is their time to prove their use.
constexpr std::uint16_t kUnprovenTicks = kTicksPerTurnover / 2;

}  // namespace

HolderTable::Prefix HolderTable::behind(const Ahead& parent) {
  const KeyTable::Place place = keys_.find(parent);
  KVIST_CHECK(place.found(), "a block that a worker holds has an entry");
  return {.tick = place.use().tick(), .depth = place.use().depth() + 1};
}

// A new block is not fresher than its parent, and unproven.
BlockUse HolderTable::use_of_new(Prefix& prefix) const {
  const std::uint16_t now = tick();
  if (BlockUse(prefix.tick, 0).age(now) < kUnprovenTicks)
    prefix.tick = static_cast<std::uint16_t>(now - kUnprovenTicks);
  return {prefix.tick, prefix.depth++};
}

void HolderTable::add(const HoldingWorker& worker, Prefix& prefix, const Ahead& key) {
  Prefix behind_new = prefix;
  if (keys_.put_ahead(key, WorkerSetPool::single(worker.id), use_of_new(behind_new))) [[likely]] {
    prefix = behind_new;
    return pass_time();
  }
  const KeyTable::Place place = keys_.find_or_place(key);
  if (place.found()) return add_to(worker, prefix, key.hash, place);
  keys_.put(place, key.hash, WorkerSetPool::single(worker.id), use_of_new(prefix));
  pass_time();
}

void HolderTable::add_to(const HoldingWorker& worker, Prefix& prefix, std::uint64_t key, const KeyTable::Place& place) {
  const std::uint16_t now = tick();
  const WorkerSetHandle set = place.set();
  if (sets_.contains(set, worker.id)) {
    const std::uint64_t further = worker.further_names->insert(NameDigest(key), 1);
    if (further != 0) worker.further_names->set(NameDigest(key), further + 1);
  } else {
    place.set_set(sets_.with(set, worker.id));
  }
  // A block that another worker stores again has proved its use.
  const BlockUse use = place.use();
  if (BlockUse(prefix.tick, 0).age(now) < use.age(now)) {
    place.refresh_shared(prefix.tick);
  } else {
    prefix.tick = use.tick();
  }
  prefix.depth = use.depth() + 1;
  pass_time();
}

void HolderTable::drop(const HoldingWorker& worker, const Ahead& key) {
  if (!worker.further_names->empty() && drop_further_name(worker, key.hash)) [[unlikely]]
    return;
  if (keys_.set_ahead(key) == WorkerSetPool::single(worker.id)) [[likely]]
    return keys_.erase_ahead(key);
  const KeyTable::Place place = keys_.find(key);
  KVIST_CHECK(place.found(), "a block that a worker holds has an entry");
  const WorkerSetHandle left = sets_.without(place.set(), worker.id);
  if (left == WorkerSetPool::kEmpty) {
    keys_.erase(place, key.hash);
  } else {
    place.set_set(left);
  }
}

void HolderTable::drop_all(const HoldingWorker& worker, std::span<const std::uint64_t> keys) {
  constexpr std::size_t kAtOnce = 32;
  std::array<Ahead, kAtOnce> ahead;
  for (; !keys.empty(); keys = keys.subspan(std::min(kAtOnce, keys.size()))) {
    const auto some = keys.first(std::min(kAtOnce, keys.size()));
    for (std::size_t i = 0; i < some.size(); ++i) prefetch(some[i], ahead[i]);
    for (std::size_t i = 0; i < some.size(); ++i) prefetch_entry(ahead[i]);
    for (std::size_t i = 0; i < some.size(); ++i) drop(worker, ahead[i]);
  }
}

bool HolderTable::drop_further_name(const HoldingWorker& worker, std::uint64_t key) {
  const std::uint64_t further = worker.further_names->find(NameDigest(key));
  if (further > 1) {
    worker.further_names->set(NameDigest(key), further - 1);
  } else if (further == 1) {
    worker.further_names->erase(NameDigest(key));
  }
  return further > 0;
}

void HolderTable::pass_time() {
  if (++added_in_tick_ < std::max(kLeastPerTick, keys_.size() / kTicksPerTurnover)) return;
  added_in_tick_ = 0;
  tick_.store(static_cast<std::uint16_t>(tick() + 1), std::memory_order_relaxed);
}

}  // namespace kvist::routing
