#include "kvist/engine/kv_manager.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kvist/base/check.h"
#include "kvist/kv/block_hash.h"

namespace kvist::engine {

KvManager::KvManager(std::string model, std::uint32_t blocks, std::uint32_t block_size,
                     std::unique_ptr<AdmissionPolicy> policy, Tokens tokens)
    : model_(std::move(model)),
      pool_(blocks, block_size),
      tells_tokens_(tokens.tells_tokens),
      policy_(std::move(policy)) {
  if (tokens.compares_tokens) contents_.emplace(blocks, block_size);
}

void KvManager::name_prompt(Sequence& sequence) {
  if (!sequence.block_hashes.empty()) return;
  if (const auto& known = sequence.request.prompt_blocks) {
    KVIST_CHECK(known->size() == sequence.prompt_tokens / pool_.block_size(),
                fmt::format("{} block hashes for a prompt of {} tokens", known->size(), sequence.prompt_tokens));
    sequence.block_hashes.reserve(std::max<std::size_t>(known->size(), sequence.total_blocks));
    sequence.block_hashes.assign(known->begin(), known->end());
    return;
  }
  KVIST_CHECK(sequence.named_tokens == 0, "tokens that only their blocks' hashes tell of, and no hashes");
  const kv::BlockHash root = kv::root_hash({.model = model_, .lora = {}, .cache_salt = sequence.request.cache_salt});
  sequence.block_hashes.reserve(sequence.total_blocks);
  kv::hash_blocks(root, std::span(sequence.tokens).first(sequence.prompt_tokens), pool_.block_size(),
                  sequence.block_hashes);
}

// After a preemption the tokens of the answer are looked up too, because their blocks are usually still there.
BlockDemand KvManager::look_up(Sequence& sequence, std::uint32_t budget) {
  name_prompt(sequence);
  const std::size_t most =
      sequence.may_use_cache()
          ? std::min<std::size_t>(sequence.block_hashes.size(), (sequence.certain() - 1) / pool_.block_size())
          : 0;
  pool_.find_prefix(std::span(sequence.block_hashes).first(most), match_);
  if (contents_) keep_holding(sequence);
  BlockDemand demand{.total = sequence.total_blocks, .cached = static_cast<std::uint32_t>(match_.size())};
  for (const kv::BlockId block : match_) demand.cached_free += pool_.references(block) == 0 ? 1 : 0;
  const std::uint32_t cached_tokens = demand.cached * pool_.block_size();
  demand.first_step = blocks_for(std::min(sequence.certain() - cached_tokens, budget) + cached_tokens) - demand.cached;
  return demand;
}

std::size_t KvManager::first_uncached(const Sequence& sequence) {
  pool_.find_prefix(sequence.block_hashes, match_);
  return match_.size();
}

// The head of a blocked queue is tried in every step. This saves the look-up of its whole prompt: the number of free
// blocks that it needs is total - (blocks of its prefix that are in use), which each gain lowers by at most one.
bool KvManager::still_refused(const Sequence& sequence) const {
  const std::uint64_t gained = gains() - sequence.refused_at;
  if (sequence.refused_blocks <= gained) return false;
  const BlockDemand at_best{.total = sequence.refused_blocks - static_cast<std::uint32_t>(gained)};
  return !policy_->admits(at_best, pool_.free_blocks());
}

bool KvManager::try_admit(Sequence& sequence, std::uint32_t budget) {
  if (still_refused(sequence)) return false;
  const BlockDemand demand = look_up(sequence, budget);
  if (!policy_->admits(demand, pool_.free_blocks())) {
    sequence.refused_blocks = demand.to_allocate() + demand.cached_free;
    sequence.refused_at = gains();
    return false;
  }
  sequence.refused_blocks = 0;

  for (const kv::BlockId block : match_) pool_.acquire(block);
  policy_->on_admitted(demand);
  // Reserves all memory that the sequence will use, so that steps only append.
  sequence.blocks.reserve(sequence.total_blocks);
  sequence.blocks.assign(match_.begin(), match_.end());
  sequence.tokens.reserve(std::size_t{sequence.prompt_tokens} - sequence.named_tokens + sequence.output_limit);
  const std::uint32_t cached_tokens = demand.cached * pool_.block_size();
  sequence.committed_blocks = demand.cached;
  sequence.computed = cached_tokens;
  sequence.planned = cached_tokens;
  sequence.covered = cached_tokens;
  sequence.next_commit = cached_tokens + pool_.block_size();
  return true;
}

bool KvManager::allocate_for(Sequence& sequence, std::uint32_t tokens) {
  const auto needed = blocks_for(tokens) - static_cast<std::uint32_t>(sequence.blocks.size());
  if (needed > pool_.free_blocks()) return false;
  for (std::uint32_t i = 0; i < needed; ++i) sequence.blocks.push_back(*pool_.allocate());
  policy_->on_allocated(needed);
  sequence.covered += needed * pool_.block_size();
  return true;
}

// Before the blocks become findable, so that only other blocks are found under their hashes.
void KvManager::note_contents(const Sequence& sequence, std::uint32_t first, std::uint32_t complete) {
  for (std::uint32_t i = first; i < complete; ++i) {
    const std::span<const TokenId> tokens = tokens_of(sequence, i);
    const std::uint64_t before = i > 0 ? contents_->number(sequence.blocks[i - 1]) : BlockContents::kStart;
    const std::optional<kv::BlockId> known = pool_.find(sequence.block_hashes[i]);
    contents_->set(sequence.blocks[i], tokens, before, known ? copy_that_holds(*known, tokens, before) : std::nullopt);
  }
}

// Of the findable blocks with one hash.
std::optional<kv::BlockId> KvManager::copy_that_holds(kv::BlockId first, std::span<const TokenId> tokens,
                                                      std::uint64_t before) const {
  for (kv::BlockId copy = first;;) {
    if (contents_->holds(copy, tokens, before)) return copy;
    copy = pool_.next_copy(copy);
    if (copy == first) return std::nullopt;
  }
}

// Of the blocks that were found by their hashes.
void KvManager::keep_holding(const Sequence& sequence) {
  std::uint64_t before = BlockContents::kStart;
  for (std::size_t i = 0; i < match_.size(); ++i) {
    const std::optional<kv::BlockId> copy = copy_that_holds(match_[i], tokens_of(sequence, i), before);
    if (!copy) return match_.resize(i);
    match_[i] = *copy;
    before = contents_->number(*copy);
  }
}

void KvManager::commit_complete(Sequence& sequence, std::uint32_t tokens_there) {
  const std::uint32_t block_size = pool_.block_size();
  // An aborted sequence may have computed a token whose sample was discarded and is not known.
  const std::uint32_t complete = std::min(tokens_there, sequence.certain()) / block_size;
  const std::uint32_t first = sequence.committed_blocks;
  if (complete <= first) return;

  const kv::PrefixIdentity identity{.model = model_, .lora = {}, .cache_salt = sequence.request.cache_salt};
  std::vector<kv::BlockHash>& hashes = sequence.block_hashes;
  for (auto i = static_cast<std::uint32_t>(hashes.size()); i < complete; ++i) {
    const kv::BlockHash parent = i > 0 ? hashes[i - 1] : kv::root_hash(identity);
    hashes.push_back(kv::chain_hash(parent, tokens_of(sequence, i)));
  }
  if (contents_) note_contents(sequence, first, complete);
  const std::uint32_t count = complete - first;
  const std::span<const TokenId> told =
      tells_tokens_ ? std::span<const TokenId>(sequence.tokens)
                          .subspan(std::size_t{first} * block_size, std::size_t{count} * block_size)
                    : std::span<const TokenId>();
  pool_.commit(std::span<const kv::BlockId>(sequence.blocks).subspan(first, count),
               std::span<const kv::BlockHash>(hashes).subspan(first, count),
               first > 0 ? std::optional(hashes[first - 1]) : std::nullopt, told, identity);
  sequence.committed_blocks = complete;
  sequence.next_commit = (complete + 1) * block_size;
}

void KvManager::release(Sequence& sequence) {
  for (const kv::BlockId block : sequence.blocks | std::views::reverse) pool_.release(block);
  policy_->on_left(sequence.total_blocks - static_cast<std::uint32_t>(sequence.blocks.size()));
  sequence.blocks.clear();
  sequence.committed_blocks = 0;
  sequence.planned = sequence.computed = sequence.covered = sequence.next_commit = 0;
}

}  // namespace kvist::engine
