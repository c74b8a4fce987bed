#include "kvist/analysis/cache_oracle.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace kvist::analysis {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

/// When each extent is looked up by a request that counts, and when one that does not brings it anyway.
class Lookups {
 public:
  explicit Lookups(std::span<const OracleRequest> requests) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      for (const Extent& extent : requests[i].prompt) add(i, extent, requests[i].counts);
      if (requests[i].counts) continue;
      for (const Extent& extent : requests[i].leaves) add(i, extent, false);
    }
  }

  /// Until when it is worth to keep so much of an extent: the first look-up after `now`. Never if a request that does
  /// not count brings as much before that.
  [[nodiscard]] std::size_t next(std::uint64_t key, std::uint32_t blocks, std::size_t now) const {
    const auto entry = at_.find(key);
    if (entry == at_.end()) return kNever;
    for (auto use = std::ranges::upper_bound(entry->second, now, {}, &Use::request); use != entry->second.end();
         ++use) {
      if (use->counts) return use->request;
      if (use->blocks >= blocks) return kNever;
    }
    return kNever;
  }

 private:
  struct Use {
    std::size_t request = 0;
    std::uint32_t blocks = 0;
    bool counts = true;
  };

  void add(std::size_t request, const Extent& extent, bool counts) {
    std::vector<Use>& uses = at_[extent.key];
    if (uses.empty() || uses.back().request != request) uses.push_back({.request = request, .counts = counts});
    uses.back().blocks = std::max(uses.back().blocks, extent.blocks);
  }

  std::unordered_map<std::uint64_t, std::vector<Use>> at_;  // ascending; only looked up, never iterated
};

/// Belady's cache. Extents lose blocks from their ends, so that what is left is still a beginning. Whenever an extent
/// is needed, those before it are too, so none loses a block before the extents behind it have gone (unless a request
/// brings it again before it is needed).
class ClairvoyantCache {
 public:
  ClairvoyantCache(std::uint64_t capacity, const Lookups& lookups) : capacity_(capacity), lookups_(&lookups) {}

  [[nodiscard]] std::uint32_t blocks_of(std::uint64_t key) const {
    const auto entry = held_.find(key);
    return entry == held_.end() ? 0 : entry->second.blocks;
  }

  /// Offers an extent after the request `now` has used it. `depth` is its place in the prompt.
  void offer(const Extent& extent, std::size_t now, std::size_t depth) {
    const std::uint32_t before = blocks_of(extent.key);
    forget(extent.key);
    const std::uint32_t blocks = std::max(before, extent.blocks);
    const std::size_t next = lookups_->next(extent.key, blocks, now);
    if (next == kNever) return;
    const Held held{.blocks = blocks, .next = next, .depth = depth};
    held_[extent.key] = held;
    order_.insert({next, depth, extent.key});
    used_ += held.blocks;
    shrink();
  }

 private:
  struct Held {
    std::uint32_t blocks = 0;
    std::size_t next = 0;
    std::size_t depth = 0;
  };

  void forget(std::uint64_t key) {
    const auto entry = held_.find(key);
    if (entry == held_.end()) return;
    used_ -= entry->second.blocks;
    order_.erase({entry->second.next, entry->second.depth, key});
    held_.erase(entry);
  }

  void shrink() {
    while (used_ > capacity_) {
      const auto [next, depth, key] = *order_.rbegin();
      Held& farthest = held_.at(key);
      const std::uint64_t excess = used_ - capacity_;
      if (excess < farthest.blocks) {
        farthest.blocks -= static_cast<std::uint32_t>(excess);
        used_ -= excess;
      } else {
        forget(key);
      }
    }
  }

  std::uint64_t capacity_;
  const Lookups* lookups_;
  std::uint64_t used_ = 0;
  std::unordered_map<std::uint64_t, Held> held_;
  std::set<std::tuple<std::size_t, std::size_t, std::uint64_t>> order_;  // by next use, the deepest last
};

/// The request that left the most of an extent, how much that was, and the most that any other left.
class TwoOwners {
 public:
  void add(std::size_t owner, std::uint32_t blocks) {
    if (owner == first_ || first_ == kNever) {
      first_ = owner;
      first_blocks_ = std::max(first_blocks_, blocks);
    } else if (blocks > first_blocks_) {
      second_blocks_ = std::max(second_blocks_, first_blocks_);
      first_ = owner;
      first_blocks_ = blocks;
    } else {
      second_blocks_ = std::max(second_blocks_, blocks);
    }
  }
  [[nodiscard]] std::uint32_t of_others(std::size_t asker) const {
    return asker == first_ ? second_blocks_ : std::max(first_blocks_, second_blocks_);
  }

 private:
  std::size_t first_ = kNever;
  std::uint32_t first_blocks_ = 0;
  std::uint32_t second_blocks_ = 0;
};

/// The blocks that requests which count could have had of an endless cache.
std::uint64_t counted_reuse(std::span<const OracleRequest> requests) {
  const std::vector<std::uint64_t> reused = endless_reuse(requests);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) sum += requests[i].counts ? reused[i] : 0;
  return sum;
}

}  // namespace

std::vector<std::uint64_t> endless_reuse(std::span<const OracleRequest> requests) {
  std::unordered_map<std::uint64_t, std::uint32_t> held;
  std::vector<std::uint64_t> reused;
  reused.reserve(requests.size());
  for (const OracleRequest& request : requests) {
    std::uint64_t blocks = 0;
    for (const Extent& extent : request.prompt) {
      const auto entry = held.find(extent.key);
      const std::uint32_t there = entry == held.end() ? 0 : std::min(entry->second, extent.blocks);
      blocks += there;
      if (there < extent.blocks) break;
    }
    reused.push_back(blocks);
    for (const auto* extents : {&request.prompt, &request.leaves}) {
      for (const Extent& extent : *extents) held[extent.key] = std::max(held[extent.key], extent.blocks);
    }
  }
  return reused;
}

std::vector<std::uint64_t> findable(std::span<const OracleRequest> requests) {
  std::vector<std::size_t> by_sending(requests.size());
  std::iota(by_sending.begin(), by_sending.end(), std::size_t{0});
  std::vector<std::size_t> by_answer = by_sending;
  std::ranges::sort(by_sending, {}, [&](std::size_t i) { return requests[i].sent; });
  std::ranges::sort(by_answer, {}, [&](std::size_t i) { return requests[i].answered; });
  std::unordered_map<std::uint64_t, TwoOwners> left;
  std::vector<std::uint64_t> found(requests.size(), 0);
  std::size_t sent = 0;
  for (const std::size_t i : by_answer) {
    for (; sent < by_sending.size() && requests[by_sending[sent]].sent <= requests[i].answered; ++sent) {
      const std::size_t owner = by_sending[sent];
      for (const auto* extents : {&requests[owner].prompt, &requests[owner].leaves}) {
        for (const Extent& extent : *extents) left[extent.key].add(owner, extent.blocks);
      }
    }
    for (const Extent& extent : requests[i].prompt) {
      const auto entry = left.find(extent.key);
      const std::uint32_t there = entry == left.end() ? 0 : std::min(entry->second.of_others(i), extent.blocks);
      found[i] += there;
      if (there < extent.blocks) break;
    }
  }
  return found;
}

std::uint64_t bounded_reuse(std::span<const OracleRequest> requests, std::uint64_t capacity) {
  const Lookups lookups(requests);
  ClairvoyantCache cache(capacity, lookups);
  std::uint64_t reused = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const OracleRequest& request = requests[i];
    for (const Extent& extent : request.prompt) {
      const std::uint32_t there = std::min(cache.blocks_of(extent.key), extent.blocks);
      reused += request.counts ? there : 0;
      if (there < extent.blocks) break;
    }
    std::size_t depth = 0;
    for (const auto* extents : {&request.prompt, &request.leaves}) {
      for (const Extent& extent : *extents) cache.offer(extent, i, depth++);
    }
  }
  return reused;
}

CacheBounds cache_bounds(std::span<const OracleRequest> requests, std::uint32_t block_size,
                         std::span<const std::uint64_t> worker_blocks) {
  CacheBounds bounds{.block_size = block_size, .sizes_known = !worker_blocks.empty()};
  bounds.endless = counted_reuse(requests) * block_size;
  std::size_t workers = worker_blocks.size();
  for (const OracleRequest& request : requests) workers = std::max(workers, request.worker + 1);
  std::vector<std::vector<OracleRequest>> of_worker(workers);
  for (const OracleRequest& request : requests) of_worker[request.worker].push_back(request);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    bounds.routed_endless += counted_reuse(of_worker[worker]) * block_size;
    if (bounds.sizes_known) bounds.routed += bounded_reuse(of_worker[worker], worker_blocks[worker]) * block_size;
  }
  if (bounds.sizes_known) {
    const std::uint64_t all = std::accumulate(worker_blocks.begin(), worker_blocks.end(), std::uint64_t{0});
    bounds.fleet = bounded_reuse(requests, all) * block_size;
  }
  return bounds;
}

}  // namespace kvist::analysis
