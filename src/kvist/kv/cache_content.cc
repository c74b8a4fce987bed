#include "kvist/kv/cache_content.h"

#include <utility>

namespace kvist::kv {

void CacheContent::apply(const std::vector<KvEvent>& events) {
  for (const KvEvent& event : events) {
    if (const auto* stored = std::get_if<BlockStored>(&event)) {
      store(*stored);
    } else if (const auto* removed = std::get_if<BlockRemoved>(&event)) {
      remove(*removed);
    } else {
      blocks_.clear();
      possible_ = true;
    }
  }
}

void CacheContent::store(const BlockStored& stored) {
  if (stored.medium != Medium::kDevice || stored.group != 0 || stored.tokens.empty()) possible_ = false;
  if (!possible_) return;
  std::optional<ExternalHash> parent = stored.parent;
  for (std::size_t i = 0; i < stored.hashes.size(); ++i) {
    const auto [place, is_new] = blocks_.try_emplace(stored.hashes[i]);
    Block& block = place->second;
    ++block.copies;
    if (is_new) {
      block.parent = parent;
      const auto begin = stored.tokens.begin() + static_cast<std::ptrdiff_t>(i * stored.block_size);
      block.tokens.assign(begin, begin + stored.block_size);
      block.lora_name = stored.lora_name;
      if (i == 0) block.cache_salt = stored.cache_salt;
      block.other_extra_keys = stored.other_extra_keys;
      if (parent) {
        if (const auto above = blocks_.find(*parent); above != blocks_.end()) ++above->second.children;
      }
    }
    parent = stored.hashes[i];
  }
}

void CacheContent::remove(const BlockRemoved& removed) {
  if (removed.medium != Medium::kDevice || removed.group != 0) possible_ = false;
  if (!possible_) return;
  for (const ExternalHash hash : removed.hashes) {
    const auto found = blocks_.find(hash);
    if (found == blocks_.end() || found->second.copies == 0) continue;
    --found->second.copies;
    forget_unneeded(hash);
  }
}

void CacheContent::forget_unneeded(ExternalHash hash) {
  for (auto found = blocks_.find(hash); found != blocks_.end();) {
    if (found->second.copies > 0 || found->second.children > 0) return;
    const std::optional<ExternalHash> parent = found->second.parent;
    blocks_.erase(found);
    if (!parent) return;
    found = blocks_.find(*parent);
    if (found != blocks_.end()) --found->second.children;
  }
}

std::vector<KvEvent> CacheContent::events() const {
  std::vector<ExternalHash> later;
  Children children;
  BlockRemoved removed;
  std::vector<KvEvent> events{AllBlocksCleared{}};
  for (const auto& [hash, block] : blocks_) {
    if (block.parent && blocks_.contains(*block.parent))
      children[*block.parent].push_back(hash);
    else
      later.push_back(hash);
    if (block.copies == 0) removed.hashes.push_back(hash);
  }
  while (!later.empty()) {
    const ExternalHash first = later.back();
    later.pop_back();
    events.emplace_back(run_from(first, children, later));
  }
  for (const auto& [hash, block] : blocks_) {
    if (block.copies < 2) continue;
    const BlockStored once = run_from(hash, {}, later);
    for (std::uint32_t i = 1; i < block.copies; ++i) events.emplace_back(once);
  }
  if (!removed.hashes.empty()) events.emplace_back(std::move(removed));
  return events;
}

BlockStored CacheContent::run_from(ExternalHash first, const Children& children,
                                   std::vector<ExternalHash>& later) const {
  const Block* block = &blocks_.at(first);
  BlockStored run;
  run.parent = block->parent;
  run.block_size = static_cast<std::uint32_t>(block->tokens.size());
  run.lora_name = block->lora_name;
  run.cache_salt = block->cache_salt;
  run.other_extra_keys = block->other_extra_keys;
  for (ExternalHash hash = first;;) {
    run.hashes.push_back(hash);
    run.tokens.insert(run.tokens.end(), block->tokens.begin(), block->tokens.end());
    const auto below = children.find(hash);
    if (below == children.end()) return run;
    block = nullptr;
    for (const ExternalHash child : below->second) {
      const Block& candidate = blocks_.at(child);
      if (block == nullptr && fits(run, candidate)) {
        block = &candidate;
        hash = child;
      } else {
        later.push_back(child);
      }
    }
    if (block == nullptr) return run;
  }
}

bool CacheContent::fits(const BlockStored& run, const Block& block) const {
  return block.tokens.size() == run.block_size && block.lora_name == run.lora_name && block.cache_salt.empty() &&
         block.other_extra_keys == run.other_extra_keys;
}

}  // namespace kvist::kv
