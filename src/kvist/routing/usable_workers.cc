#include "kvist/routing/usable_workers.h"

#include <algorithm>

namespace kvist::routing {

bool UsableWorkers::begin_with_available(const FleetView& fleet, std::uint32_t prompt_tokens) {
  const bool known = fleet.is_still(version_);
  if (!known) read(fleet);
  for (const std::uint32_t position : others_) workers_[position] = {.worker = workers_[position].worker};
  others_.clear();
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
  version_ = 0;
}

void UsableWorkers::add(const UsableWorker& usable) {
  const auto position = static_cast<std::uint32_t>(workers_.size());
  if (workers_.empty()) prompt_tokens_ = least_prompt_tokens_ = usable.prompt_tokens;
  least_prompt_tokens_ = std::min(least_prompt_tokens_, usable.prompt_tokens);
  positions_[usable.worker.value()] = position;
  workers_.push_back({.worker = usable.worker,
                      .tokens_beside = usable.prompt_tokens - prompt_tokens_,
                      .cached_tokens = usable.cached_tokens,
                      .replicate_tokens = usable.replicate_tokens});
  if (!workers_.back().is_plain()) others_.push_back(position);
}

void UsableWorkers::set_cached(WorkerId worker, std::uint32_t tokens) {
  const std::uint32_t position = positions_[worker.value()];
  if (position == kNone || tokens == 0) return;
  if (workers_[position].is_plain()) others_.push_back(position);
  workers_[position].cached_tokens = tokens;
}

}  // namespace kvist::routing
