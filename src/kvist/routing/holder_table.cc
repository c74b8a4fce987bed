#include "kvist/routing/holder_table.h"

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::routing {
namespace {

// A tick passes when a 64th of the index was stored anew.
constexpr std::size_t kTicksPerTurnover = 64;
constexpr std::size_t kLeastPerTick = 256;
// Blocks that nobody has looked up yet are taken for this old: half a turnover is their time to prove their use.
constexpr std::uint16_t kUnprovenTicks = kTicksPerTurnover / 2;

}  // namespace

HoldingWorker HolderTable::begin_worker(HoldingWorker worker) {
  flush();
  return std::exchange(worker_, worker);
}

void HolderTable::flush() {
  for (; fetched_ != behind_; ++fetched_) keys_.prefetch_entry(queue_[fetched_ % kQueued].ahead);
  while (first_ != behind_) make_first();
}

void HolderTable::make_first() {
  const Change& change = queue_[first_++ % kQueued];
  const std::uint64_t key = change.ahead.hash;
  switch (change.kind) {
    case Change::kBegin:
      return make_begin(key);
    case Change::kAdd:
      return make_add(key);
    case Change::kDrop:
      return make_drop(key);
  }
}

void HolderTable::make_begin(std::uint64_t parent) {
  prefix_tick_ = tick();
  depth_ = 0;
  if (parent == 0) return;
  const KeyTable::Place place = keys_.find(parent);
  KVIST_CHECK(place.found(), "a block that a worker holds has an entry");
  prefix_tick_ = place.use().tick();
  depth_ = place.use().depth() + 1;
}

void HolderTable::make_add(std::uint64_t key) {
  const std::uint16_t now = tick();
  const KeyTable::Place place = keys_.find_or_place(key);
  if (!place.found()) {
    if (BlockUse(prefix_tick_, 0).age(now) < kUnprovenTicks) {
      prefix_tick_ = static_cast<std::uint16_t>(now - kUnprovenTicks);
    }
    keys_.put(place, key, WorkerSetPool::single(worker_.id), BlockUse(prefix_tick_, depth_));
    ++depth_;
    return pass_time();
  }
  const WorkerSetHandle set = place.set();
  if (sets_.contains(set, worker_.id)) {
    const std::uint64_t further = worker_.further_names->insert(NameDigest(key), 1);
    if (further != 0) worker_.further_names->set(NameDigest(key), further + 1);
  } else {
    place.set_set(sets_.with(set, worker_.id));
  }
  // A block that another worker stores again has proved its use.
  const BlockUse use = place.use();
  if (BlockUse(prefix_tick_, 0).age(now) < use.age(now)) {
    place.refresh_shared(prefix_tick_);
  } else {
    prefix_tick_ = use.tick();
  }
  depth_ = use.depth() + 1;
  pass_time();
}

void HolderTable::make_drop(std::uint64_t key) {
  if (!worker_.further_names->empty() && drop_further_name(key)) [[unlikely]]
    return;
  const KeyTable::Place place = keys_.find_to_change(key);
  KVIST_CHECK(place.found(), "a block that a worker holds has an entry");
  const WorkerSetHandle left = sets_.without(place.set(), worker_.id);
  if (left == WorkerSetPool::kEmpty) {
    keys_.erase(place, key);
  } else {
    place.set_set(left);
  }
}

bool HolderTable::drop_further_name(std::uint64_t key) {
  const std::uint64_t further = worker_.further_names->find(NameDigest(key));
  if (further > 1) {
    worker_.further_names->set(NameDigest(key), further - 1);
  } else if (further == 1) {
    worker_.further_names->erase(NameDigest(key));
  }
  return further > 0;
}

void HolderTable::pass_time() {
  if (++added_in_tick_ < std::max(kLeastPerTick, keys_.size() / kTicksPerTurnover)) return;
  added_in_tick_ = 0;
  tick_.store(static_cast<std::uint16_t>(tick() + 1), std::memory_order_relaxed);
}

}  // namespace kvist::routing
