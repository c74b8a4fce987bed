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
                     std::unique_ptr<AdmissionPolicy> policy)
    : model_(std::move(model)), pool_(blocks, block_size), policy_(std::move(policy)) {}

BlockDemand KvManager::look_up(const Sequence& sequence) {
  BlockDemand demand{.total = sequence.total_blocks};
  match_.clear();
  const std::uint32_t most = (sequence.prompt_tokens() - 1) / pool_.block_size();
  for (std::uint32_t i = 0; i < most; ++i) {
    const std::optional<kv::BlockId> block = pool_.find(sequence.names[i]);
    if (!block) break;
    match_.push_back(*block);
    ++demand.cached;
    if (pool_.references(*block) == 0) ++demand.cached_free;
  }
  return demand;
}

bool KvManager::try_admit(Sequence& sequence) {
  const Request& request = sequence.request;
  if (sequence.names.empty()) {
    const kv::BlockHash root = kv::root_hash({.model = model_, .lora = {}, .cache_salt = request.cache_salt});
    sequence.names = kv::hash_blocks(root, request.prompt, pool_.block_size());
  }
  const BlockDemand demand = look_up(sequence);
  if (!policy_->admits(demand, pool_.free_blocks())) return false;

  for (const kv::BlockId block : match_) pool_.acquire(block);
  policy_->on_admitted(demand);
  // All the memory the sequence will use, once: steps only append.
  sequence.blocks.reserve(sequence.total_blocks);
  sequence.blocks.assign(match_.begin(), match_.end());
  sequence.names.reserve(sequence.total_blocks);
  sequence.tokens.reserve(request.prompt.size() + sequence.output_limit);
  sequence.tokens.assign(request.prompt.begin(), request.prompt.end());
  sequence.committed_blocks = demand.cached;
  sequence.cached_tokens = demand.cached * pool_.block_size();
  sequence.computed = sequence.cached_tokens;
  sequence.planned = sequence.cached_tokens;
  return true;
}

void KvManager::grow(Sequence& sequence, std::uint32_t tokens) {
  const std::size_t needed = (tokens + pool_.block_size() - 1) / pool_.block_size();
  while (sequence.blocks.size() < needed) {
    const std::optional<kv::BlockId> block = pool_.allocate();
    KVIST_CHECK(block.has_value(), fmt::format("no free block for request {}, which was promised {}",
                                               sequence.request.id.value(), sequence.total_blocks));
    sequence.blocks.push_back(*block);
    policy_->on_allocated(1);
  }
}

void KvManager::commit_computed(Sequence& sequence) {
  const std::uint32_t block_size = pool_.block_size();
  // An aborted sequence may have computed a token whose sample was discarded: what it was is not known.
  const auto certain = std::min(sequence.computed, static_cast<std::uint32_t>(sequence.tokens.size()));
  const std::uint32_t complete = certain / block_size;
  const std::uint32_t first = sequence.committed_blocks;
  if (complete <= first) return;

  const kv::PrefixIdentity identity{.model = model_, .lora = {}, .cache_salt = sequence.request.cache_salt};
  const std::span<const TokenId> tokens(sequence.tokens);
  std::vector<kv::BlockHash>& names = sequence.names;
  for (auto i = static_cast<std::uint32_t>(names.size()); i < complete; ++i) {
    const kv::BlockHash parent = i > 0 ? names[i - 1] : kv::root_hash(identity);
    names.push_back(kv::chain_hash(parent, tokens.subspan(std::size_t{i} * block_size, block_size)));
  }
  const std::uint32_t count = complete - first;
  pool_.commit(std::span<const kv::BlockId>(sequence.blocks).subspan(first, count),
               std::span<const kv::BlockHash>(names).subspan(first, count),
               first > 0 ? std::optional(names[first - 1]) : std::nullopt,
               tokens.subspan(std::size_t{first} * block_size, std::size_t{count} * block_size), identity);
  sequence.committed_blocks = complete;
}

void KvManager::release(Sequence& sequence) {
  for (const kv::BlockId block : sequence.blocks | std::views::reverse) pool_.release(block);
  policy_->on_left(sequence.total_blocks - static_cast<std::uint32_t>(sequence.blocks.size()));
  sequence.blocks.clear();
}

}  // namespace kvist::engine
