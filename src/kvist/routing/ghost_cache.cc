#include "kvist/routing/ghost_cache.h"

#include <algorithm>
#include <bit>

namespace kvist::routing {
namespace {

/// One of how many blocks is sampled, so that at most GhostCache::kMostSampled of `blocks` are.
std::uint64_t stride_of(std::uint64_t blocks) {
  return std::bit_ceil(std::max<std::uint64_t>(1, (blocks + GhostCache::kMostSampled - 1) / GhostCache::kMostSampled));
}

std::uint64_t share_of(double share, std::uint64_t blocks) {
  return static_cast<std::uint64_t>(share * static_cast<double>(blocks));
}

}  // namespace

std::uint64_t GhostCache::horizon() const {
  return evicted_age_ + share_of(kMore, fleet_blocks_);
}

void GhostCache::on_routed(WorkerId worker, std::span<const kv::BlockHash> prompt, const Found& found,
                           std::uint64_t fleet_blocks) {
  if (fleet_blocks_ != fleet_blocks) resize(fleet_blocks);
  missed_ *= 1 - kShare;
  inserted_ *= 1 - kShare;
  touch(worker, prompt, found.exact ? std::optional(found.anywhere) : std::nullopt);
  const std::uint64_t inserted = prompt.size() - std::min(prompt.size(), found.there);
  if (found.exact) inserted_ += static_cast<double>(inserted);
  insert(inserted);
  expire();
}

void GhostCache::on_peer_routed(WorkerId worker, std::span<const kv::BlockHash> prompt, std::uint64_t inserted) {
  touch(worker, prompt, std::nullopt);
  insert(inserted);
  expire();
}

// What was inserted stays counted: it is little, and has aged others already.
void GhostCache::take_back(WorkerId worker, std::span<const kv::BlockHash> prompt) {
  for (const kv::BlockHash block : prompt) {
    if (!is_sampled(block)) continue;
    if (Use* const use = last_uses_.find(block); use != nullptr && use->worker == worker) use->is_computed = false;
  }
}

void GhostCache::on_answer(std::uint64_t blocks, bool is_own) {
  if (is_own) inserted_ += static_cast<double>(blocks);
  insert(blocks);
}

// Workers come and go: what is known of the age is kept as a share.
void GhostCache::resize(std::uint64_t fleet_blocks) {
  const double share = fleet_blocks_ == 0 ? 1 : static_cast<double>(evicted_age_) / static_cast<double>(fleet_blocks_);
  fleet_blocks_ = fleet_blocks;
  evicted_age_ = share_of(share, fleet_blocks);
  stride_ = stride_of(share_of(1 + kMore, fleet_blocks));
}

// The boundary moves by as many blocks as were on its wrong side.
void GhostCache::learn_age(std::uint64_t age, bool is_found) {
  if (is_found && age > evicted_age_) evicted_age_ = std::min(evicted_age_ + stride_, fleet_blocks_);
  if (!is_found && age < evicted_age_) evicted_age_ -= std::min(evicted_age_, stride_);
}

// Blocks behind `anywhere` are in no cache. Without it nobody knows what is.
void GhostCache::touch(WorkerId worker, std::span<const kv::BlockHash> prompt, std::optional<std::size_t> anywhere) {
  if (fleet_blocks_ == 0) return;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (!is_sampled(prompt[i])) continue;
    const auto [use, is_new] = last_uses_.try_emplace(prompt[i]);
    if (is_new) {
      by_last_use_.emplace_back(inserted_in_all_, prompt[i]);
    } else if (anywhere && use->is_computed && use->at > emptied_[use->worker.value()]) {
      const std::uint64_t age = inserted_in_all_ - use->at;
      const bool is_found = i < *anywhere;
      learn_age(age, is_found);
      if (!is_found && age <= horizon()) missed_ += static_cast<double>(stride_);
    }
    *use = {.at = inserted_in_all_, .worker = worker};
  }
}

// A block that was used again since it was put into the queue goes to its end.
void GhostCache::expire() {
  const std::uint64_t oldest = share_of(1 + kMore, fleet_blocks_);
  while (!by_last_use_.empty()) {
    const auto [queued, block] = by_last_use_.front();
    const bool too_many = last_uses_.size() > 2 * kMostSampled;
    if (inserted_in_all_ - queued <= oldest && !too_many) return;
    by_last_use_.pop_front();
    const std::uint64_t last = last_uses_.find(block)->at;
    if (last == queued || inserted_in_all_ - last > oldest) {
      last_uses_.erase(block);
    } else {
      by_last_use_.emplace_back(last, block);
    }
  }
}

double GhostCache::recomputed() const {
  if (inserted_ <= 0) return 0;
  return std::min(1.0, missed_ / inserted_) / kMore;
}

}  // namespace kvist::routing
