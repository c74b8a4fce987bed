// Names of KV blocks: a hash chained over complete blocks, so that equal names mean equal prefixes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::kv {

/// Name of the prefix that ends with one complete block: XXH3-64 over (name of the prefix before, tokens of the block).
using BlockHash = Id<struct BlockHashTag, std::uint64_t>;

/// What makes equal tokens different content. Requests that differ in any of it never share a block.
struct PrefixIdentity {
  std::string_view model;
  std::string_view lora;
  std::string_view cache_salt;
};

/// The parent of a chain's first block.
[[nodiscard]] BlockHash root_hash(const PrefixIdentity& identity);
/// The name of the prefix `parent` + one complete block of tokens.
[[nodiscard]] BlockHash chain_hash(BlockHash parent, std::span<const TokenId> block_tokens);
/// Names of as many prefixes as there is room for in `names`: `parent` + one block, + two blocks, and so on. Requires
/// their tokens.
void chain_hashes(BlockHash parent, std::span<const TokenId> tokens, std::uint32_t block_size,
                  std::span<BlockHash> names);
/// Names of all complete blocks of a prompt, in order; the incomplete tail has none. Requires block_size > 0.
[[nodiscard]] std::vector<BlockHash> hash_blocks(BlockHash root, std::span<const TokenId> tokens,
                                                 std::uint32_t block_size);
/// The same, appended to `names`.
void hash_blocks(BlockHash root, std::span<const TokenId> tokens, std::uint32_t block_size,
                 std::vector<BlockHash>& names);

}  // namespace kvist::kv
