#include "kvist/routing/reused_prefixes.h"

#include <algorithm>

namespace kvist::routing {

void ReusedPrefixes::add(WorkerId worker, const BlockKeys& prompt, std::size_t reused, TimePoint now) {
  if (reused == 0) return;
  if (uses_.size() == kMost) forget_oldest();
  blocks_[worker.value()] += prefixes_.add(worker, prompt, reused);
  uses_.push_back({.at = now, .worker = worker, .prompt = prompt, .blocks = reused});
}

void ReusedPrefixes::forget_oldest() {
  const Use& oldest = uses_.front();
  blocks_[oldest.worker.value()] -= prefixes_.remove(oldest.worker, oldest.prompt, oldest.blocks);
  uses_.pop_front();
}

void ReusedPrefixes::look_up(std::span<const kv::BlockHash> prompt, TimePoint now) {
  while (!uses_.empty() && uses_.front().at + kKept <= now) forget_oldest();
  prompt_blocks_ = prompt.size();
  prefixes_.match(prompt, depths_);
}

std::uint64_t ReusedPrefixes::would_displace(WorkerId worker, std::uint32_t kv_blocks) const {
  const std::uint64_t with_prompt = blocks_[worker.value()] + prompt_blocks_ - depths_[worker.value()];
  return std::min(prompt_blocks_, with_prompt - std::min<std::uint64_t>(with_prompt, kv_blocks));
}

}  // namespace kvist::routing
