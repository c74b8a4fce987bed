#include "kvist/routing/usable_workers.h"

#include <algorithm>

namespace kvist::routing {

UsableWorkers::UsableWorkers(std::size_t workers)
    : positions_(WorkerLanes::padded(workers), kNone),
      cached_(positions_.size()),
      missing_(positions_.size()),
      fleet_(workers) {}

bool UsableWorkers::begin_with_available(const FleetView& fleet, std::uint32_t prompt_tokens) {
  const bool known = fleet.is_still(version_);
  if (!known) read(fleet);
  std::ranges::fill(cached_, 0U);
  lack_copies_ = false;
  prompt_tokens_ = least_prompt_tokens_ = prompt_tokens;
  return !known;
}

// A worker whose context is not known (0) has room for any prompt.
void UsableWorkers::read(const FleetView& fleet) {
  begin();
  longest_prompt_ = ~0U;
  any_new_ = false;
  for (std::uint32_t i = 0; i < fleet.size(); ++i) {
    const WorkerView& worker = fleet[i];
    if (!worker.available) continue;
    add({.worker = WorkerId(i)});
    longest_prompt_ = std::min(longest_prompt_, worker.max_model_len - 1);
    any_new_ |= worker.most_waiting > 0;
  }
  version_ = fleet.version();
}

void UsableWorkers::begin() {
  for (const Entry& entry : workers_) positions_[entry.worker.value()] = kNone;
  workers_.clear();
  others_.clear();
  std::ranges::fill(cached_, 0U);
  lack_copies_ = false;
  version_ = 0;
}

void UsableWorkers::add(const UsableWorker& usable) {
  const auto position = static_cast<std::uint32_t>(workers_.size());
  if (workers_.empty()) prompt_tokens_ = least_prompt_tokens_ = usable.prompt_tokens;
  least_prompt_tokens_ = std::min(least_prompt_tokens_, usable.prompt_tokens);
  positions_[usable.worker.value()] = position;
  workers_.push_back({.worker = usable.worker, .tokens_beside = usable.prompt_tokens - prompt_tokens_});
  cached_[usable.worker.value()] = usable.cached_tokens;
  if (workers_.back().tokens_beside != 0) others_.push_back(position);
}

void UsableWorkers::set_cached(std::span<const std::uint32_t> blocks, std::uint32_t block_size) {
  if (prompt_tokens_ == 0) return;
  const auto most = WorkerLanes::all((prompt_tokens_ - 1) / block_size);
  for (std::size_t at = 0; at < cached_.size(); at += WorkerLanes::kLanes) {
    const auto cached = WorkerLanes::lowest(WorkerLanes::load(blocks.data() + at), most) * block_size;
    const auto is_usable = WorkerLanes::load(positions_.data() + at) != WorkerLanes::all(kNone);
    WorkerLanes::store(cached_.data() + at, is_usable ? cached : WorkerLanes::Counts{});
  }
}

void UsableWorkers::replicate(std::span<const std::uint32_t> blocks, std::uint32_t hot, std::uint32_t block_size) {
  const auto most = WorkerLanes::all(hot);
  for (std::size_t at = 0; at < missing_.size(); at += WorkerLanes::kLanes) {
    const auto there = WorkerLanes::lowest(WorkerLanes::load(blocks.data() + at), most);
    WorkerLanes::store(missing_.data() + at, (most - there) * block_size);
  }
  lack_copies_ = true;
}

}  // namespace kvist::routing
