#include "kvist/routing/usable_workers.h"

#include <algorithm>

namespace kvist::routing {

bool UsableWorkers::begin_with_available(const FleetView& fleet, std::uint32_t prompt_tokens) {
  const bool known = fleet.is_still(version_);
  if (!known) read(fleet);
  for (UsableWorker& usable : workers_)
    usable = {.worker = usable.worker, .prompt_tokens = prompt_tokens, .cached_tokens = 0, .replicate_tokens = 0};
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
  for (const UsableWorker& usable : workers_) positions_[usable.worker.value()] = kNone;
  workers_.clear();
  others_.clear();
  version_ = 0;
}

void UsableWorkers::add(const UsableWorker& usable) {
  const auto position = static_cast<std::uint32_t>(workers_.size());
  if (workers_.empty()) prompt_tokens_ = least_prompt_tokens_ = usable.prompt_tokens;
  least_prompt_tokens_ = std::min(least_prompt_tokens_, usable.prompt_tokens);
  if (((usable.prompt_tokens ^ prompt_tokens_) | usable.cached_tokens | usable.replicate_tokens) != 0)
    others_.push_back(position);
  positions_[usable.worker.value()] = position;
  workers_.push_back(usable);
}

void UsableWorkers::set_cached(WorkerId worker, std::uint32_t tokens) {
  const std::uint32_t position = positions_[worker.value()];
  if (position == kNone || tokens == 0) return;
  UsableWorker& usable = workers_[position];
  if (usable.prompt_tokens == prompt_tokens_ && usable.replicate_tokens == 0) others_.push_back(position);
  usable.cached_tokens = tokens;
}

// What is left after some were taken out.
void UsableWorkers::place() {
  const std::vector<UsableWorker> left = workers_;
  std::ranges::fill(positions_, kNone);
  begin();
  for (const UsableWorker& usable : left) add(usable);
}

}  // namespace kvist::routing
