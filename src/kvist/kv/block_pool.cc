#include "kvist/kv/block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/flat_map.h"

namespace kvist::kv {
namespace {

std::vector<ExternalHash> external_hashes(std::span<const BlockHash> hashes) {
  std::vector<ExternalHash> result;
  result.reserve(hashes.size());
  for (const BlockHash hash : hashes) result.emplace_back(hash.value());
  return result;
}

}  // namespace

BlockPool::BlockPool(std::uint32_t blocks, std::uint32_t block_size)
    : block_size_(block_size),
      total_(blocks),
      free_count_(blocks),
      blocks_(std::size_t{blocks} + 1),
      entries_(std::bit_ceil(std::max<std::size_t>(2 * std::size_t{blocks}, 2))),
      entry_shift_(64U - static_cast<unsigned>(std::countr_zero(entries_.size()))) {
  KVIST_CHECK(block_size > 0, "a block holds at least one token");
  KVIST_CHECK(blocks < ~std::uint32_t{0}, "an index is an id + 1");
}

std::optional<BlockId> BlockPool::find(BlockHash hash) const {
  const std::uint32_t first = entries_[entry_of(hash)];
  if (first == kNone) return std::nullopt;
  return id_of(first);
}

void BlockPool::find_prefix(std::span<const BlockHash> hashes, std::vector<BlockId>& blocks) const {
  // Entries and blocks are scattered in memory. The entry of one hash and, once that is in the cache, the block of
  // another are prefetched, so that a search waits for neither.
  constexpr std::size_t kEntriesAhead = 16;
  constexpr std::size_t kBlocksAhead = 8;
  std::array<std::size_t, kEntriesAhead> homes;  // of the hashes from i on, as a ring
  const auto look_ahead = [&](std::size_t i) {
    homes[i % kEntriesAhead] = home(hashes[i]);
    __builtin_prefetch(&entries_[homes[i % kEntriesAhead]]);
  };
  blocks.clear();
  for (std::size_t i = 0; i < std::min(kEntriesAhead, hashes.size()); ++i) look_ahead(i);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const std::size_t from = homes[i % kEntriesAhead];
    if (i + kEntriesAhead < hashes.size()) look_ahead(i + kEntriesAhead);
    if (i + kBlocksAhead < hashes.size()) {
      const std::uint32_t ahead = entries_[homes[(i + kBlocksAhead) % kEntriesAhead]];
      if (ahead != kNone) __builtin_prefetch(&blocks_[ahead]);
    }
    const std::uint32_t first = entries_[entry_from(from, hashes[i])];
    if (first == kNone) return;
    blocks.push_back(id_of(first));
  }
}

BlockId BlockPool::next_copy(BlockId block) const {
  KVIST_CHECK(block.value() < total_ && blocks_[index_of(block)].findable,
              fmt::format("block {} is not findable", block.value()));
  return id_of(blocks_[index_of(block)].copy_next);
}

std::uint32_t BlockPool::references(BlockId block) const {
  KVIST_CHECK(block.value() < total_, fmt::format("no block {}", block.value()));
  return blocks_[index_of(block)].references;
}

// Requires: a block is free.
std::uint32_t BlockPool::take_free() {
  const bool list_first = free_first_ != kNone && !blocks_[free_first_].findable;
  if (!list_first && first_unused_ <= total_) {
    --free_count_;
    return first_unused_++;
  }
  const std::uint32_t index = free_first_;
  unlink_free(index);
  return index;
}

std::optional<BlockId> BlockPool::allocate() {
  if (free_count_ == 0) return std::nullopt;
  const std::uint32_t index = take_free();
  Block& block = blocks_[index];
  if (block.findable) {
    const ExternalHash hash(block.hash.value());
    if (auto* const last = events_.empty() ? nullptr : std::get_if<BlockRemoved>(&events_.back())) {
      last->hashes.push_back(hash);
    } else {
      events_.emplace_back(BlockRemoved{.hashes = {hash}});
    }
    forget_hash(index);
    ++counters_.evictions;
  }
  block.references = 1;
  ++counters_.allocations;
  return id_of(index);
}

void BlockPool::acquire(BlockId id) {
  Block& block = checked(id);
  KVIST_CHECK(block.findable || block.references > 0, fmt::format("block {} holds nothing to share", id.value()));
  if (block.references++ > 0) return;
  unlink_free(index_of(id));
  ++counters_.reuses;
  if (block.findable) move_copy(index_of(id), true);
}

void BlockPool::release(BlockId id) {
  Block& block = checked(id);
  KVIST_CHECK(block.references > 0, fmt::format("block {} is not held", id.value()));
  if (--block.references > 0) return;
  if (!block.findable) {
    push_free_front(index_of(id));
    return;
  }
  push_free_back(index_of(id));
  move_copy(index_of(id), false);
}

void BlockPool::commit(std::span<const BlockId> blocks, std::span<const BlockHash> hashes,
                       std::optional<BlockHash> parent, std::span<const TokenId> tokens,
                       const PrefixIdentity& identity) {
  KVIST_CHECK(hashes.size() == blocks.size(), fmt::format("{} hashes for {} blocks", hashes.size(), blocks.size()));
  KVIST_CHECK(tokens.empty() || tokens.size() == blocks.size() * block_size_,
              fmt::format("{} tokens in {} blocks of {}", tokens.size(), blocks.size(), block_size_));
  if (blocks.empty()) return;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Block& block = checked(blocks[i]);
    KVIST_CHECK(block.references > 0, fmt::format("block {} is not held", blocks[i].value()));
    KVIST_CHECK(!block.findable, fmt::format("block {} is findable already", blocks[i].value()));
    block.findable = true;
    block.hash = hashes[i];
    link_copy(index_of(blocks[i]), true);
  }
  counters_.stored_blocks += blocks.size();
  BlockStored stored{.hashes = external_hashes(hashes), .parent = {}, .tokens = {}, .lora_name = {}, .cache_salt = {}};
  if (parent)
    stored.parent = ExternalHash(parent->value());
  else
    stored.cache_salt = identity.cache_salt;
  stored.tokens.assign(tokens.begin(), tokens.end());
  stored.block_size = block_size_;
  stored.lora_name = identity.lora;
  stored.names_are_keys = tokens.empty();
  events_.emplace_back(std::move(stored));
}

void BlockPool::clear_hashes() {
  // Free blocks keep their places: where none is findable their order no longer matters.
  for (std::uint32_t index = 1; index < first_unused_; ++index)
    if (blocks_[index].findable) forget_hash(index);
  events_.emplace_back(AllBlocksCleared{});
}

std::vector<KvEvent> BlockPool::take_events() {
  return std::exchange(events_, {});
}

void BlockPool::take_events(std::vector<KvEvent>& out) {
  out.clear();
  std::swap(out, events_);
}

std::unordered_map<BlockHash, std::uint32_t> BlockPool::findable() const {
  std::unordered_map<BlockHash, std::uint32_t> copies;
  for (const Block& block : blocks_.first(first_unused_))
    if (block.findable) ++copies[block.hash];
  return copies;
}

BlockPool::Block& BlockPool::checked(BlockId block) {
  KVIST_CHECK(block.value() < total_, fmt::format("no block {}", block.value()));
  return blocks_[index_of(block)];
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

// Block hashes are spread already, but who chooses prompts chooses them too: XXH3 has no key.
std::size_t BlockPool::home(BlockHash hash) const {
  return static_cast<std::size_t>(RandomSpread::of(hash.value()) >> entry_shift_);
}

std::size_t BlockPool::longest_search() const {
  const std::size_t mask = entries_.size() - 1;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i] != kNone) longest = std::max(longest, ((i - home(blocks_[entries_[i]].hash)) & mask) + 1);
  return longest;
}

// Entries that were displaced by the erased one move back, so that no search ends too early.
void BlockPool::erase_entry(std::size_t hole) {
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t next = (hole + 1) & mask; entries_[next] != kNone; next = (next + 1) & mask) {
    const std::size_t from_home = (next - home(blocks_[entries_[next]].hash)) & mask;
    if (from_home < ((next - hole) & mask)) continue;
    entries_[hole] = entries_[next];
    hole = next;
  }
  entries_[hole] = kNone;
}

void BlockPool::link_copy(std::uint32_t index, bool in_front) {
  Block& block = blocks_[index];
  std::uint32_t& entry = entries_[entry_of(block.hash)];
  if (entry == kNone) {
    block.copy_previous = block.copy_next = index;
    entry = index;
    return;
  }
  // A place before the first of a ring is both its front and its back; only the entry differs.
  const std::uint32_t first = entry;
  const std::uint32_t last = blocks_[first].copy_previous;
  block.copy_previous = last;
  block.copy_next = first;
  blocks_[last].copy_next = index;
  blocks_[first].copy_previous = index;
  if (in_front) entry = index;
}

void BlockPool::unlink_copy(std::uint32_t index) {
  Block& block = blocks_[index];
  const std::size_t entry = entry_of(block.hash);
  KVIST_CHECK(entries_[entry] != kNone, fmt::format("block {} has a hash that has no entry", id_of(index).value()));
  if (block.copy_next == index) {
    erase_entry(entry);
  } else {
    if (entries_[entry] == index) entries_[entry] = block.copy_next;
    blocks_[block.copy_previous].copy_next = block.copy_next;
    blocks_[block.copy_next].copy_previous = block.copy_previous;
  }
  block.copy_previous = block.copy_next = kNone;
}

void BlockPool::move_copy(std::uint32_t index, bool to_front) {
  if (blocks_[index].copy_next == index) return;  // the only copy, which is nearly always the case
  unlink_copy(index);
  link_copy(index, to_front);
}

void BlockPool::forget_hash(std::uint32_t index) {
  unlink_copy(index);
  blocks_[index].findable = false;
}

}  // namespace kvist::kv
