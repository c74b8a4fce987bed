#include "kvist/kv/block_pool.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/base/check.h"

namespace kvist::kv {
namespace {

std::vector<ExternalHash> external_names(std::span<const BlockHash> names) {
  std::vector<ExternalHash> result;
  result.reserve(names.size());
  for (const BlockHash name : names) result.emplace_back(name.value());
  return result;
}

}  // namespace

BlockPool::BlockPool(std::uint32_t blocks, std::uint32_t block_size) : block_size_(block_size), blocks_(blocks) {
  KVIST_CHECK(block_size > 0, "a block holds at least one token");
  KVIST_CHECK(blocks < kNone, "the largest index means none");
  // At most one name per block, so neither of the two ever grows.
  first_copy_.reserve(blocks);
  spare_names_.reserve(blocks);
  for (std::uint32_t index = 0; index < blocks; ++index) push_free_back(index);
}

std::optional<BlockId> BlockPool::find(BlockHash hash) const {
  const auto entry = first_copy_.find(hash);
  if (entry == first_copy_.end()) return std::nullopt;
  return BlockId(entry->second);
}

std::uint32_t BlockPool::references(BlockId block) const {
  KVIST_CHECK(block.value() < blocks_.size(), fmt::format("no block {}", block.value()));
  return blocks_[block.value()].references;
}

std::optional<BlockId> BlockPool::allocate() {
  if (free_first_ == kNone) return std::nullopt;
  const std::uint32_t index = free_first_;
  unlink_free(index);
  Block& block = blocks_[index];
  if (block.named) {
    events_.emplace_back(BlockRemoved{.hashes = {ExternalHash(block.name.value())}});
    forget_name(index);
    ++counters_.evictions;
  }
  block.references = 1;
  ++counters_.allocations;
  return BlockId(index);
}

void BlockPool::acquire(BlockId id) {
  Block& block = checked(id);
  KVIST_CHECK(block.named || block.references > 0, fmt::format("block {} holds nothing to share", id.value()));
  if (block.references++ > 0) return;
  unlink_free(id.value());
  if (block.named) move_copy(id.value(), true);
}

void BlockPool::release(BlockId id) {
  Block& block = checked(id);
  KVIST_CHECK(block.references > 0, fmt::format("block {} is not held", id.value()));
  if (--block.references > 0) return;
  if (!block.named) {
    push_free_front(id.value());
    return;
  }
  push_free_back(id.value());
  move_copy(id.value(), false);
}

void BlockPool::commit(std::span<const BlockId> blocks, std::span<const BlockHash> names,
                       std::optional<BlockHash> parent, std::span<const TokenId> tokens,
                       const PrefixIdentity& identity) {
  KVIST_CHECK(names.size() == blocks.size(), fmt::format("{} names for {} blocks", names.size(), blocks.size()));
  KVIST_CHECK(tokens.size() == blocks.size() * block_size_,
              fmt::format("{} tokens in {} blocks of {}", tokens.size(), blocks.size(), block_size_));
  if (blocks.empty()) return;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Block& block = checked(blocks[i]);
    KVIST_CHECK(block.references > 0, fmt::format("block {} is not held", blocks[i].value()));
    KVIST_CHECK(!block.named, fmt::format("block {} has a name", blocks[i].value()));
    block.named = true;
    block.name = names[i];
    link_copy(blocks[i].value(), true);
  }
  counters_.stored_blocks += blocks.size();
  BlockStored stored{.hashes = external_names(names), .parent = {}, .tokens = {}, .lora_name = {}, .cache_salt = {}};
  if (parent)
    stored.parent = ExternalHash(parent->value());
  else
    stored.cache_salt = identity.cache_salt;
  stored.tokens.assign(tokens.begin(), tokens.end());
  stored.block_size = block_size_;
  stored.lora_name = identity.lora;
  events_.emplace_back(std::move(stored));
}

void BlockPool::clear_names() {
  // Free blocks keep their places: without names their order no longer matters.
  for (std::uint32_t index = 0; index < total_blocks(); ++index)
    if (blocks_[index].named) forget_name(index);
  events_.emplace_back(AllBlocksCleared{});
}

std::vector<KvEvent> BlockPool::take_events() {
  return std::exchange(events_, {});
}

std::unordered_map<BlockHash, std::uint32_t> BlockPool::findable() const {
  std::unordered_map<BlockHash, std::uint32_t> copies;
  for (const Block& block : blocks_)
    if (block.named) ++copies[block.name];
  return copies;
}

BlockPool::Block& BlockPool::checked(BlockId block) {
  KVIST_CHECK(block.value() < blocks_.size(), fmt::format("no block {}", block.value()));
  return blocks_[block.value()];
}

void BlockPool::push_free_front(std::uint32_t index) {
  blocks_[index].free_previous = kNone;
  blocks_[index].free_next = free_first_;
  (free_first_ == kNone ? free_last_ : blocks_[free_first_].free_previous) = index;
  free_first_ = index;
  ++free_count_;
}

void BlockPool::push_free_back(std::uint32_t index) {
  blocks_[index].free_next = kNone;
  blocks_[index].free_previous = free_last_;
  (free_last_ == kNone ? free_first_ : blocks_[free_last_].free_next) = index;
  free_last_ = index;
  ++free_count_;
}

void BlockPool::unlink_free(std::uint32_t index) {
  const Block& block = blocks_[index];
  (block.free_previous == kNone ? free_first_ : blocks_[block.free_previous].free_next) = block.free_next;
  (block.free_next == kNone ? free_last_ : blocks_[block.free_next].free_previous) = block.free_previous;
  --free_count_;
}

void BlockPool::link_copy(std::uint32_t index, bool in_front) {
  Block& block = blocks_[index];
  const auto entry = first_copy_.find(block.name);
  if (entry == first_copy_.end()) {
    block.copy_previous = block.copy_next = index;
    insert_name(block.name, index);
    return;
  }
  // Before the first of a ring is both its front and its back; only the entry differs.
  const std::uint32_t first = entry->second;
  const std::uint32_t last = blocks_[first].copy_previous;
  block.copy_previous = last;
  block.copy_next = first;
  blocks_[last].copy_next = index;
  blocks_[first].copy_previous = index;
  if (in_front) entry->second = index;
}

void BlockPool::unlink_copy(std::uint32_t index) {
  Block& block = blocks_[index];
  const auto entry = first_copy_.find(block.name);
  KVIST_CHECK(entry != first_copy_.end(), fmt::format("block {} has a name nobody knows", index));
  if (block.copy_next == index) {
    erase_name(entry);
  } else {
    if (entry->second == index) entry->second = block.copy_next;
    blocks_[block.copy_previous].copy_next = block.copy_next;
    blocks_[block.copy_next].copy_previous = block.copy_previous;
  }
  block.copy_previous = block.copy_next = kNone;
}

void BlockPool::move_copy(std::uint32_t index, bool to_front) {
  if (blocks_[index].copy_next == index) return;  // the only copy, as nearly always
  unlink_copy(index);
  link_copy(index, to_front);
}

void BlockPool::insert_name(BlockHash name, std::uint32_t index) {
  if (spare_names_.empty()) {
    first_copy_.emplace(name, index);
    return;
  }
  Names::node_type node = std::move(spare_names_.back());
  spare_names_.pop_back();
  node.key() = name;
  node.mapped() = index;
  first_copy_.insert(std::move(node));
}

void BlockPool::erase_name(Names::iterator entry) {
  spare_names_.push_back(first_copy_.extract(entry));
}

void BlockPool::forget_name(std::uint32_t index) {
  unlink_copy(index);
  blocks_[index].named = false;
}

}  // namespace kvist::kv
