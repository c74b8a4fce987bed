#include "kvist/kv_index/holder_table.h"

#include <algorithm>

#include "kvist/base/check.h"

namespace kvist::kv_index {
bool HolderTable::add_elsewhere(const HoldingWorker& worker, Prefix& prefix, std::uint64_t key,
                                PlacementHint placement) {
  if (const BlockRef found = blocks_.find(prefix.last, key); found != 0) {
    add_to(worker, prefix, found);
    return true;
  }
  const BlockUse use = use_of_new(prefix);
  const BlockRef put = blocks_.put(prefix.last, key, WorkerSetPool::single(worker.id), use, placement);
  if (put == 0) [[unlikely]]
    return false;
  prefix = {.last = put, .next = use.deeper()};
  return true;
}

void HolderTable::add_to(const HoldingWorker& worker, Prefix& prefix, BlockRef found) {
  IndexedBlock& block = blocks_.block(found);
  const WorkerSetHandle set = block.set();
  if (set == WorkerSetPool::kEmpty) {
    const BlockUse use = use_of_new(prefix);
    blocks_.hold(block, WorkerSetPool::single(worker.id), use);
    prefix = {.last = found, .next = use.deeper()};
    return;
  }
  if (sets_.contains(set, worker.id)) {
    const std::uint32_t further = worker.further_names->insert(NameDigest(found), 1);
    if (further != 0) worker.further_names->set(NameDigest(found), further + 1);
  } else {
    block.set_set(sets_.with(set, worker.id));
  }
  // A block that a further worker stores counts as used now, but never as fresher than the block before it.
  BlockUse use = block.use();
  if (prefix.next.age(tick()) < use.age(tick())) {
    use = use.at(prefix.next.tick());
    block.refresh_shared(use.tick());
  }
  prefix = {.last = found, .next = use.deeper()};
}

void HolderTable::drop_from_set(const HoldingWorker& worker, BlockRef block) {
  const WorkerSetHandle set = blocks_.block(block).set();
  KVIST_CHECK(sets_.contains(set, worker.id), "a worker is in the set of a block that it holds");
  blocks_.block(block).set_set(sets_.without(set, worker.id));
}

void HolderTable::drop_all(const HoldingWorker& worker, std::span<const BlockRef> blocks) {
  constexpr std::size_t kPrefetched = 16;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i + kPrefetched < blocks.size()) blocks_.prefetch(blocks[i + kPrefetched]);
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

void HolderTable::pass_tick() {
  adds_left_in_tick_ += std::max(kLeastPerTick, static_cast<std::ptrdiff_t>(blocks_.size() / kTicksPerTurnover));
  tick_.store(static_cast<std::uint16_t>(tick() + 1), std::memory_order_relaxed);
}

}  // namespace kvist::kv_index
