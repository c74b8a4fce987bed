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

HolderTable::Prefix HolderTable::behind(BlockRef parent) const {
  const BlockUse use = blocks_.block(parent).use();
  return {.last = parent, .tick = use.tick(), .depth = use.depth() + 1};
}

// A new block is not fresher than its parent, and unproven.
BlockUse HolderTable::use_of_new(Prefix& prefix) const {
  const std::uint16_t now = tick();
  if (BlockUse(prefix.tick, 0).age(now) < kUnprovenTicks)
    prefix.tick = static_cast<std::uint16_t>(now - kUnprovenTicks);
  return {prefix.tick, prefix.depth++};
}

bool HolderTable::add(const HoldingWorker& worker, Prefix& prefix, std::uint64_t key) {
  Prefix behind_new = prefix;
  const BlockUse use = use_of_new(behind_new);
  const WorkerSetHandle set = WorkerSetPool::single(worker.id);
  behind_new.last = blocks_.append(prefix.last, key, set, use);
  if (behind_new.last == 0) {
    if (const BlockRef found = blocks_.find(prefix.last, key); found != 0) {
      add_to(worker, prefix, found);
      pass_time();
      return true;
    }
    behind_new.last = blocks_.put(prefix.last, key, set, use);
    if (behind_new.last == 0) [[unlikely]]
      return false;
  }
  prefix = behind_new;
  pass_time();
  return true;
}

void HolderTable::add_to(const HoldingWorker& worker, Prefix& prefix, BlockRef found) {
  IndexedBlock& block = blocks_.block(found);
  const WorkerSetHandle set = block.set();
  prefix.last = found;
  if (set == WorkerSetPool::kEmpty) {
    blocks_.hold(block, WorkerSetPool::single(worker.id), use_of_new(prefix));
    return;
  }
  if (sets_.contains(set, worker.id)) {
    const std::uint32_t further = worker.further_names->insert(NameDigest(found), 1);
    if (further != 0) worker.further_names->set(NameDigest(found), further + 1);
  } else {
    block.set_set(sets_.with(set, worker.id));
  }
  // A block that another worker stores again has proved its use.
  const BlockUse use = block.use();
  if (BlockUse(prefix.tick, 0).age(tick()) < use.age(tick())) {
    block.refresh_shared(prefix.tick);
  } else {
    prefix.tick = use.tick();
  }
  prefix.depth = use.depth() + 1;
}

void HolderTable::drop(const HoldingWorker& worker, BlockRef block) {
  if (!worker.further_names->empty() && drop_further_name(worker, block)) [[unlikely]]
    return;
  const WorkerSetHandle set = blocks_.block(block).set();
  if (set == WorkerSetPool::single(worker.id)) [[likely]]
    return blocks_.let_go(block);
  KVIST_CHECK(sets_.contains(set, worker.id), "a worker is in the set of a block that it holds");
  blocks_.block(block).set_set(sets_.without(set, worker.id));
}

void HolderTable::drop_all(const HoldingWorker& worker, std::span<const BlockRef> blocks) {
  constexpr std::size_t kAhead = 16;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i + kAhead < blocks.size()) blocks_.prefetch(blocks[i + kAhead]);
    drop(worker, blocks[i]);
  }
}

bool HolderTable::drop_further_name(const HoldingWorker& worker, BlockRef block) {
  const std::uint32_t further = worker.further_names->find(NameDigest(block));
  if (further > 1) {
    worker.further_names->set(NameDigest(block), further - 1);
  } else if (further == 1) {
    worker.further_names->erase(NameDigest(block));
  }
  return further > 0;
}

void HolderTable::pass_time() {
  if (++added_in_tick_ < std::max(kLeastPerTick, blocks_.size() / kTicksPerTurnover)) return;
  added_in_tick_ = 0;
  tick_.store(static_cast<std::uint16_t>(tick() + 1), std::memory_order_relaxed);
}

}  // namespace kvist::routing
