#include "kvist/engine/timed/rolled_memory.h"

#include <algorithm>

namespace kvist::engine {

void RolledMemory::begin(const CoreView& view, std::uint64_t asked) {
  pool_ = view.pool;
  holders_.clear();
  found_.clear();
  for (const kv::BlockId block : touched_) more_uses_[block.value()] = 0;
  touched_.clear();
  more_uses_.resize(pool_->total_blocks(), 0);
  refused_ = nullptr;
  matched_ = nullptr;
  std::uint64_t promised = 0;
  for (const SequenceView& running : view.running) promised += running.total_blocks - running.blocks.size();
  ample_ = promised + asked <= pool_->free_blocks();
  room_ = pool_->free_blocks();
  if (admission_ == spec::AdmissionKind::kReserveToCompletion) room_ -= static_cast<double>(promised);
}

std::uint32_t RolledMemory::references(kv::BlockId block) const {
  const auto uses = static_cast<std::int32_t>(pool_->references(block)) + more_uses_[block.value()];
  return static_cast<std::uint32_t>(std::max(0, uses));
}

void RolledMemory::use(kv::BlockId block, std::int32_t more) {
  touched_.push_back(block);
  more_uses_[block.value()] += more;
}

std::uint32_t RolledMemory::hold(const SequenceView& running) {
  if (ample_) return 0;
  holders_.push_back({.total = running.total_blocks, .blocks = running.blocks});
  return static_cast<std::uint32_t>(holders_.size() - 1);
}

// The pool does not change while an engine is rolled forward.
void RolledMemory::match(const Demand& demand) {
  if (matched_ != nullptr && matched_ == demand.block_hashes.data() && matched_cached_ == demand.cached) return;
  matched_ = demand.block_hashes.data();
  matched_cached_ = demand.cached;
  pool_->find_prefix(demand.block_hashes.first(std::min<std::size_t>(demand.cached, demand.block_hashes.size())),
                     match_);
}

bool RolledMemory::admits(const Demand& demand) {
  if (ample_) return true;
  if (refused_ != nullptr && refused_ == demand.block_hashes.data() && refused_cached_ == demand.cached) return false;
  match(demand);
  const auto cached_free = std::ranges::count_if(match_, [this](kv::BlockId block) { return references(block) == 0; });
  const std::uint32_t taken =
      admission_ == spec::AdmissionKind::kGreedy ? demand.first_step : demand.total - demand.cached;
  const bool fits = taken + static_cast<double>(cached_free) <= room_;
  refused_ = fits ? nullptr : demand.block_hashes.data();
  refused_cached_ = demand.cached;
  return fits;
}

std::uint32_t RolledMemory::admit(const Demand& demand) {
  if (ample_) return 0;
  match(demand);
  for (const kv::BlockId block : match_) {
    if (references(block) == 0) --room_;
    use(block, 1);
  }
  if (admission_ == spec::AdmissionKind::kReserveToCompletion) room_ -= demand.total - demand.cached;
  found_.push_back(match_);
  holders_.push_back({.total = demand.total, .blocks = found_.back()});
  return static_cast<std::uint32_t>(holders_.size() - 1);
}

// What it allocated or could have allocated since begin() is its own. Of the rest it frees what nobody else uses.
void RolledMemory::leave(std::uint32_t holder, std::uint32_t blocks) {
  if (ample_) return;
  refused_ = nullptr;
  const Holder& gone = holders_[holder];
  const auto known = static_cast<std::uint32_t>(gone.blocks.size());
  const std::uint32_t all = admission_ == spec::AdmissionKind::kGreedy ? blocks : gone.total;
  room_ += all - std::min(all, known);
  for (const kv::BlockId block : gone.blocks) {
    use(block, -1);
    if (references(block) == 0) ++room_;
  }
}

}  // namespace kvist::engine
