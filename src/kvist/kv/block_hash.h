// Hashes of KV blocks, chained over complete blocks, so that equal hashes mean equal prefixes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::kv {

/// The hash of the prefix that ends with a complete block: XXH3-64 over the block hash before it and the block's
/// tokens.
using BlockHash = Id<struct BlockHashTag, std::uint64_t>;

/// What a prefix is made of besides its tokens. Requests that differ in any of it never share a block.
struct PrefixIdentity {
  std::string_view model;
  std::string_view lora;
  std::string_view cache_salt;
};

/// The block hash before a prompt's first block.
[[nodiscard]] BlockHash root_hash(const PrefixIdentity& identity);
/// The hash of the prefix that consists of `parent` and one complete block of tokens.
[[nodiscard]] BlockHash chain_hash(BlockHash parent, std::span<const TokenId> block_tokens);
/// Sets hashes[i] to the hash of the prefix that consists of `parent` and the first i + 1 blocks of `tokens`. Requires:
/// `tokens` has hashes.size() * block_size tokens.
void chain_hashes(BlockHash parent, std::span<const TokenId> tokens, std::uint32_t block_size,
                  std::span<BlockHash> hashes);
/// The hashes of all complete blocks of a prompt, in order; an incomplete last block has none. Requires: block_size >
/// 0.
[[nodiscard]] std::vector<BlockHash> hash_blocks(BlockHash root, std::span<const TokenId> tokens,
                                                 std::uint32_t block_size);
/// Like hash_blocks() above, but appends to `hashes`.
void hash_blocks(BlockHash root, std::span<const TokenId> tokens, std::uint32_t block_size,
                 std::vector<BlockHash>& hashes);

}  // namespace kvist::kv
