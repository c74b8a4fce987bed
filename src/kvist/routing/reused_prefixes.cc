#include "kvist/routing/reused_prefixes.h"

#include <algorithm>

namespace kvist::routing {

std::uint64_t ReusedPrefixes::add(WorkerId worker, const BlockKeys& prompt, std::size_t reused, TimePoint now) {
  const std::size_t size = view(prompt).size();
  if (reused == 0 || size == 0 || size > kMostBlocks) return 0;
  while (uses_.size() == kMostUses || held_ + size > kMostBlocks) forget_oldest();
  held_ += size;
  blocks_[worker.value()] += prefixes_.add(worker, prompt, reused);
  uses_.push_back({.number = ++last_number_, .at = now, .worker = worker, .prompt = prompt, .blocks = reused});
  return last_number_;
}

// The entry stays until it is the oldest, because the other entries would have to move.
void ReusedPrefixes::take_back(std::uint64_t number) {
  const auto found = std::ranges::lower_bound(uses_, number, {}, &Use::number);
  if (found == uses_.end() || found->number != number) return;
  forget(*found);
  found->prompt = nullptr;
  found->blocks = 0;
}

void ReusedPrefixes::expire(TimePoint now) {
  while (!uses_.empty() && uses_.front().at + kKept <= now) forget_oldest();
}

void ReusedPrefixes::clear(WorkerId worker) {
  std::erase_if(uses_, [&](const Use& use) {
    if (use.worker != worker) return false;
    forget(use);
    return true;
  });
}

void ReusedPrefixes::forget(const Use& use) {
  held_ -= view(use.prompt).size();
  blocks_[use.worker.value()] -= prefixes_.remove(use.worker, use.prompt, use.blocks);
}

void ReusedPrefixes::forget_oldest() {
  forget(uses_.front());
  uses_.pop_front();
}

}  // namespace kvist::routing
