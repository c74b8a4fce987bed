// What the findable KV blocks hold, token by token. Private to the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/kv/block_pool.h"

namespace kvist::engine {

/// Tells whether blocks that were found by their hashes hold a prompt's tokens. The hashes do not: XXH3 is no
/// cryptographic hash, and who chooses tokens freely finds two blocks with one hash in seconds. Taken for each other,
/// one client's text would be read in the place of another's.
///
/// A block's keys and values depend on all tokens before it, so each content has a number: two blocks have the same one
/// if their tokens and the number of the content before them are the same. As in the pool, a content outlives those
/// that follow it. Memory: the tokens of all blocks. Threads: one.
class BlockContents {
 public:
  /// The number of what is before a prompt's first block.
  static constexpr std::uint64_t kStart = 0;

  BlockContents(std::uint32_t blocks, std::uint32_t block_size);

  /// Whether a findable block holds `tokens`, a block of them, behind the content with the number `before`.
  [[nodiscard]] bool holds(kv::BlockId block, std::span<const TokenId> tokens, std::uint64_t before) const;
  /// The number of a findable block's content.
  [[nodiscard]] std::uint64_t number(kv::BlockId block) const { return contents_[block.value()].number; }
  /// Notes what a block holds that is about to become findable. `twin`: a findable block that holds the same, if any.
  void set(kv::BlockId block, std::span<const TokenId> tokens, std::uint64_t before, std::optional<kv::BlockId> twin);

 private:
  struct Content {
    std::uint64_t number = kStart;
    std::uint64_t before = kStart;
  };

  std::uint32_t block_size_;
  std::vector<Content> contents_;  // by block, as are the next
  std::vector<TokenId> tokens_;
  std::uint64_t last_ = kStart;
};

}  // namespace kvist::engine
