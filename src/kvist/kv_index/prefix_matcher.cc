#include "kvist/kv_index/prefix_matcher.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

namespace kvist::kv_index {
namespace {

constexpr std::uint8_t kNoTier = 255;

/// Walks along the blocks of a prompt. All keys are known from the start, so the chunks to come are prefetched while
/// one is read. The walk assumes that behind the beginning of a chunk further chunks begin at every seventh block, and
/// that lone blocks are followed by lone blocks.
class Walk {
 public:
  Walk(const BlockChains& blocks, std::span<const kv::BlockHash> hashes) : blocks_(blocks), hashes_(hashes) {}

  /// The block at a depth; null if there is none. Requires: all blocks before it were found.
  [[nodiscard, gnu::always_inline]] IndexedBlock* at(std::size_t depth) {
    const std::uint64_t key = this->key(depth);
    if (left_in_chunk_ > 0 && (block_ + 1)->key() == key) [[likely]] {
      --left_in_chunk_;
      return ++block_;
    }
    return begin_chunk(depth, key);
  }

 private:
  // For how many of the next chunks the lines of the hash table are prefetched, and for how many the chunks themselves.
  static constexpr std::size_t kHeadsPrefetched = 5;
  static constexpr std::size_t kChunksPrefetched = 3;

  [[nodiscard]] std::uint64_t key(std::size_t depth) const { return BlockChains::valid(hashes_[depth].value()); }

  IndexedBlock* begin_chunk(std::size_t depth, std::uint64_t key) {
    if (depth != expected_) {
      for (std::size_t i = 0; i < kHeadsPrefetched; ++i) fetch_head(depth + i * step_);
      for (std::size_t i = 0; i < kChunksPrefetched; ++i) chunks_[i] = fetch_chunk(depth + i * step_);
    }
    BlockRef first = chunks_[0];
    for (std::size_t i = 1; i < kChunksPrefetched; ++i) chunks_[i - 1] = chunks_[i];
    chunks_[kChunksPrefetched - 1] = fetch_chunk(depth + kChunksPrefetched * step_);
    fetch_head(depth + kHeadsPrefetched * step_);
    if (first != 0 && !goes_to(first, key)) [[unlikely]]
      first = blocks_.find_shared(key);
    left_in_chunk_ = 0;
    expected_ = kUnknown;
    if (first == 0 || !goes_to(first, key)) return nullptr;
    expect_behind(depth, BlockChains::is_lone(first));
    return block_;
  }
  [[nodiscard]] bool goes_to(BlockRef first, std::uint64_t key) {
    block_ = blocks_.block_shared(first);
    return block_ != nullptr && block_->key() == key;
  }
  void expect_behind(std::size_t depth, bool lone) {
    const std::size_t step = lone ? 1 : BlockChunk::kBlocks;
    left_in_chunk_ = step - 1;
    if (step == step_) expected_ = depth + step;
    step_ = step;
  }
  void fetch_head(std::size_t depth) const {
    if (depth < hashes_.size()) blocks_.prefetch_head(key(depth));
  }
  [[nodiscard]] BlockRef fetch_chunk(std::size_t depth) const {
    if (depth >= hashes_.size()) return 0;
    const BlockRef hint = blocks_.hint_shared(key(depth));
    if (hint != 0) blocks_.prefetch_shared(hint);
    return hint;
  }

  static constexpr std::size_t kUnknown = ~std::size_t{0};

  const BlockChains& blocks_;
  std::span<const kv::BlockHash> hashes_;
  IndexedBlock* block_ = nullptr;
  std::size_t left_in_chunk_ = 0;
  std::size_t step_ = BlockChunk::kBlocks;
  std::size_t expected_ = kUnknown;
  std::array<BlockRef, kChunksPrefetched> chunks_ = {};
};

template <class Visit>
void for_each_word(const WorkerSetPool& sets, WorkerSetHandle set, Visit visit) {
  if (WorkerSetPool::is_single(set)) {
    const std::uint32_t worker = WorkerSetPool::member(set);
    visit(worker / 64, std::uint64_t{1} << (worker % 64));
  } else {
    sets.get(set).for_each_word(visit);
  }
}

template <class Visit>
void for_each_bit(std::uint32_t word, std::uint64_t bits, Visit visit) {
  for (; bits != 0; bits &= bits - 1) visit(WorkerId(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits))));
}

}  // namespace

template <PrefixMatcher::Caller kCaller>
std::span<const WorkerMatch> PrefixMatcher::match(const BlockChains& blocks, const WorkerSetPool& sets,
                                                  std::uint16_t tick, std::span<const kv::BlockHash> hashes) {
  matches_.clear();
  lower_.clear();
  alive_count_ = 0;
  Walk walk(blocks, hashes);
  WorkerSetHandle holders = WorkerSetPool::kEmpty;
  std::uint32_t depth = 0;
  for (; depth < hashes.size(); ++depth) {
    IndexedBlock* const block = walk.at(depth);
    if (block == nullptr) break;
    const WorkerSetHandle here = block->set();
    if (here == WorkerSetPool::kEmpty) break;
    if (depth == 0) {
      begin(sets, here);
    } else if (here != holders) {
      narrow(sets, here, depth);
      if (alive_count_ == 0) break;
    }
    holders = here;
    if constexpr (kCaller == Caller::kReader) {
      block->refresh_shared(tick);
    } else {
      block->refresh(tick);
    }
  }
  for (WorkerMatch& match : matches_) {
    if (match.blocks == 0) match.blocks = depth;
  }
  return matches_;
}

template std::span<const WorkerMatch> PrefixMatcher::match<PrefixMatcher::Caller::kWriter>(
    const BlockChains&, const WorkerSetPool&, std::uint16_t, std::span<const kv::BlockHash>);
template std::span<const WorkerMatch> PrefixMatcher::match<PrefixMatcher::Caller::kReader>(
    const BlockChains&, const WorkerSetPool&, std::uint16_t, std::span<const kv::BlockHash>);

template <PrefixMatcher::Caller kCaller>
std::span<const WorkerMatch> PrefixMatcher::match_tiers(const BlockChains& blocks, const WorkerSetPool& sets,
                                                        std::uint16_t tick, std::span<const kv::BlockHash> hashes,
                                                        std::size_t lower_from) {
  tiered_.clear();
  Walk walk(blocks, hashes);
  WorkerSetHandle holders = WorkerSetPool::kEmpty;
  std::uint32_t counted = 0;
  std::uint32_t depth = 0;
  for (; depth < hashes.size(); ++depth) {
    IndexedBlock* const block = walk.at(depth);
    if (block == nullptr) break;
    const WorkerSetHandle here = block->set();
    if (here == WorkerSetPool::kEmpty) break;
    if (here != holders) {
      count_tiers(depth - std::exchange(counted, depth));
      read_tiers(sets, here, lower_from);
      if (!narrow_tiers(depth == 0)) break;
    }
    holders = here;
    if constexpr (kCaller == Caller::kReader) {
      block->refresh_shared(tick);
    } else {
      block->refresh(tick);
    }
  }
  count_tiers(depth - counted);
  sum_tiers_up();
  return matches_;
}

template std::span<const WorkerMatch> PrefixMatcher::match_tiers<PrefixMatcher::Caller::kWriter>(
    const BlockChains&, const WorkerSetPool&, std::uint16_t, std::span<const kv::BlockHash>, std::size_t);
template std::span<const WorkerMatch> PrefixMatcher::match_tiers<PrefixMatcher::Caller::kReader>(
    const BlockChains&, const WorkerSetPool&, std::uint16_t, std::span<const kv::BlockHash>, std::size_t);

/// Sets the best medium of every worker among the holders.
void PrefixMatcher::read_tiers(const WorkerSetPool& sets, WorkerSetHandle holders, std::size_t lower_from) {
  tier_of_.assign(lower_from, kNoTier);
  for_each_word(sets, holders, [&](std::uint32_t word, std::uint64_t bits) {
    for_each_bit(word, bits, [&](WorkerId holder) {
      const std::size_t number = holder.value();
      const std::size_t worker = number < lower_from ? number : (number - lower_from) / kLowerTiers;
      const std::size_t tier = number < lower_from ? 0 : 1 + (number - lower_from) % kLowerTiers;
      // No worker of a fleet has an id beyond those with lower tiers.
      if (worker < lower_from) tier_of_[worker] = std::min(tier_of_[worker], static_cast<std::uint8_t>(tier));
    });
  });
}

/// Keeps the workers that hold the block at hand too. Returns whether there are any.
bool PrefixMatcher::narrow_tiers(bool first) {
  if (first) {
    for (std::uint32_t worker = 0; worker < tier_of_.size(); ++worker)
      if (tier_of_[worker] != kNoTier) tiered_.push_back({.worker = WorkerId(worker), .tier = tier_of_[worker]});
    return !tiered_.empty();
  }
  bool any = false;
  for (Tiered& worker : tiered_) {
    worker.tier = tier_of_[worker.worker.value()];
    worker.alive = worker.alive && worker.tier != kNoTier;
    any = any || worker.alive;
  }
  return any;
}

void PrefixMatcher::count_tiers(std::uint32_t blocks) {
  for (Tiered& worker : tiered_)
    if (worker.alive) worker.blocks[worker.tier] += blocks;
}

void PrefixMatcher::sum_tiers_up() {
  matches_.clear();
  lower_.clear();
  for (const Tiered& worker : tiered_) {
    LowerTierMatch lower{.worker = worker.worker};
    std::ranges::copy(std::span(worker.blocks).subspan(1), lower.blocks.begin());
    const std::uint32_t below = std::accumulate(lower.blocks.begin(), lower.blocks.end(), 0U);
    matches_.push_back({.worker = worker.worker, .blocks = worker.blocks[0] + below});
    if (below > 0) lower_.push_back(lower);
  }
}

void PrefixMatcher::begin(const WorkerSetPool& sets, WorkerSetHandle holders) {
  alive_.clear();
  for_each_word(sets, holders, [&](std::uint32_t word, std::uint64_t bits) {
    if (alive_.empty()) first_word_ = word;
    alive_.resize(word - first_word_ + 1);
    alive_.back() = bits;
    for_each_bit(word, bits, [&](WorkerId worker) { matches_.push_back({.worker = worker, .blocks = 0}); });
  });
  alive_count_ = matches_.size();
}

// Workers that are not among `holders` hold exactly `depth` blocks.
void PrefixMatcher::narrow(const WorkerSetPool& sets, WorkerSetHandle holders, std::uint32_t depth) {
  if (matches_.size() == 1) {
    if (sets.contains(holders, matches_.front().worker.value())) return;
    matches_.front().blocks = depth;
    alive_count_ = 0;
    return;
  }
  std::uint32_t next = 0;
  const auto lose_until = [&](std::uint32_t end) {
    for (; next < end; ++next) lose(next, alive_[next], depth);
  };
  const auto end = static_cast<std::uint32_t>(alive_.size());
  for_each_word(sets, holders, [&](std::uint32_t word, std::uint64_t bits) {
    if (word < first_word_ || word - first_word_ >= end) return;
    lose_until(word - first_word_);
    lose(next, alive_[next] & ~bits, depth);
    ++next;
  });
  lose_until(end);
}

void PrefixMatcher::lose(std::uint32_t word, std::uint64_t bits, std::uint32_t depth) {
  alive_[word] &= ~bits;
  for_each_bit(first_word_ + word, bits, [&](WorkerId worker) {
    std::ranges::lower_bound(matches_, worker, {}, &WorkerMatch::worker)->blocks = depth;
    --alive_count_;
  });
}

}  // namespace kvist::kv_index
