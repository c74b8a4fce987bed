#include "kvist/routing/holder_table.h"

#include <algorithm>

#include "kvist/base/check.h"

namespace kvist::routing {
namespace {

// A tick passes when a 64th of the index was stored anew.
constexpr std::size_t kTicksPerTurnover = 64;
constexpr std::size_t kLeastPerTick = 256;
// Blocks that nobody has looked up yet are taken for this old: half a turnover is their time to prove their use.
constexpr std::uint16_t kUnprovenTicks = kTicksPerTurnover / 2;

}  // namespace

void HolderTable::begin_prefix(std::uint64_t parent) {
  push({.key = parent, .worker = {}, .kind = Change::kBegin});
}

void HolderTable::push(const Change& change) {
  if (behind_ - first_ == kQueued) make(queue_[first_++ % kQueued]);
  keys_.prefetch(change.key);
  queue_[behind_++ % kQueued] = change;
}

void HolderTable::flush() {
  while (first_ != behind_) make(queue_[first_++ % kQueued]);
}

void HolderTable::make(const Change& change) {
  switch (change.kind) {
    case Change::kBegin:
      return make_begin(change.key);
    case Change::kAdd:
      return make_add(change.worker, change.key);
    case Change::kDrop:
      return make_drop(change.worker, change.key);
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

void HolderTable::make_add(HoldingWorker worker, std::uint64_t key) {
  const std::uint16_t now = tick();
  const KeyTable::Place place = keys_.find_or_place(key);
  if (!place.found()) {
    if (BlockUse(prefix_tick_, 0).age(now) < kUnprovenTicks) {
      prefix_tick_ = static_cast<std::uint16_t>(now - kUnprovenTicks);
    }
    keys_.put(place, key, WorkerSetPool::single(worker.id), BlockUse(prefix_tick_, depth_));
    ++depth_;
    return pass_time();
  }
  const WorkerSetHandle set = place.set();
  if (sets_.contains(set, worker.id)) {
    const std::uint64_t further = worker.further_names->insert(key, 1);
    if (further != 0) worker.further_names->set(key, further + 1);
  } else {
    place.set_set(sets_.with(set, worker.id));
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

void HolderTable::make_drop(HoldingWorker worker, std::uint64_t key) {
  if (const std::uint64_t further = worker.further_names->find(key); further > 1) {
    return worker.further_names->set(key, further - 1);
  } else if (further == 1) {
    worker.further_names->erase(key);
    return;
  }
  const KeyTable::Place place = keys_.find(key);
  KVIST_CHECK(place.found(), "a block that a worker holds has an entry");
  const WorkerSetHandle left = sets_.without(place.set(), worker.id);
  if (left == WorkerSetPool::kEmpty) {
    keys_.erase(place, key);
  } else {
    place.set_set(left);
  }
}

void HolderTable::pass_time() {
  if (++added_in_tick_ < std::max(kLeastPerTick, keys_.size() / kTicksPerTurnover)) return;
  added_in_tick_ = 0;
  tick_.store(static_cast<std::uint16_t>(tick() + 1), std::memory_order_relaxed);
}

}  // namespace kvist::routing
