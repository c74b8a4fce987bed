#include "kvist/kv/block_hash.h"

// The hash of some 136 bytes costs less than a call that looks at the length first, and parts of blocks that follow
// each other overlap once the compiler sees all of it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "kvist/base/check.h"

namespace kvist::kv {
namespace {

// Names are compared between processes and kept in recorded runs: tokens and lengths are hashed as little-endian bytes,
// which on every machine we build for is how they lie in memory.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(TokenId) == sizeof(std::uint32_t));

/// Parent and tokens of blocks up to this size are put together on the stack: any block size in use.
constexpr std::size_t kInlineTokens = 128;

/// The length goes first, so that no two identities give the same bytes ("ab" + "c" and "a" + "bc").
void append_part(std::string& out, std::string_view part) {
  const std::uint64_t length = part.size();
  std::array<char, sizeof length> bytes;
  std::memcpy(bytes.data(), &length, sizeof length);
  out.append(bytes.data(), bytes.size());
  out.append(part);
}

[[gnu::always_inline]] inline BlockHash hash_into(std::span<std::uint8_t> buffer, std::uint64_t parent,
                                                  std::span<const TokenId> tokens) {
  std::memcpy(buffer.data(), &parent, sizeof parent);
  if (!tokens.empty()) std::memcpy(buffer.data() + sizeof parent, tokens.data(), tokens.size_bytes());
  return BlockHash(XXH3_64bits(buffer.data(), buffer.size()));
}

}  // namespace

BlockHash root_hash(const PrefixIdentity& identity) {
  std::string bytes;
  append_part(bytes, identity.model);
  append_part(bytes, identity.lora);
  append_part(bytes, identity.cache_salt);
  return BlockHash(XXH3_64bits(bytes.data(), bytes.size()));
}

/// For the usual block sizes the length is a constant to the compiler.
template <std::size_t kTokens>
BlockHash chain_hash_of(BlockHash parent, const TokenId* tokens) {
  std::array<std::uint8_t, sizeof parent.value() + kTokens * sizeof(TokenId)> buffer;
  return hash_into(buffer, parent.value(), std::span<const TokenId>(tokens, kTokens));
}

BlockHash chain_hash(BlockHash parent, std::span<const TokenId> block_tokens) {
  if (block_tokens.size() == 32) return chain_hash_of<32>(parent, block_tokens.data());
  if (block_tokens.size() == 16) return chain_hash_of<16>(parent, block_tokens.data());
  const std::size_t size = sizeof parent.value() + block_tokens.size_bytes();
  if (block_tokens.size() <= kInlineTokens) {
    std::array<std::uint8_t, sizeof parent.value() + kInlineTokens * sizeof(TokenId)> buffer;
    return hash_into(std::span(buffer).first(size), parent.value(), block_tokens);
  }
  std::vector<std::uint8_t> buffer(size);
  return hash_into(buffer, parent.value(), block_tokens);
}

std::vector<BlockHash> hash_blocks(BlockHash root, std::span<const TokenId> tokens, std::uint32_t block_size) {
  KVIST_CHECK(block_size > 0, "a block holds at least one token");
  std::vector<BlockHash> names;
  names.reserve(tokens.size() / block_size);
  hash_blocks(root, tokens, block_size, names);
  return names;
}

void hash_blocks(BlockHash root, std::span<const TokenId> tokens, std::uint32_t block_size,
                 std::vector<BlockHash>& names) {
  KVIST_CHECK(block_size > 0, "a block holds at least one token");
  BlockHash parent = root;
  for (std::size_t at = 0; at + block_size <= tokens.size(); at += block_size) {
    parent = chain_hash(parent, tokens.subspan(at, block_size));
    names.push_back(parent);
  }
}

}  // namespace kvist::kv
