#include "kvist/kv/block_hash.h"

// Makes the internal steps of XXH3 available.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "kvist/base/check.h"

namespace kvist::kv {
namespace {

// Block hashes are compared between processes and kept in recorded runs. Therefore tokens and lengths are hashed as
// little-endian bytes, which is their representation in memory on every supported machine.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(TokenId) == sizeof(std::uint32_t));

/// Parent and tokens of blocks up to this size, which covers any block size in use, are concatenated on the stack.
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

/// XXH3-64 of a parent and the tokens after it, for the usual block sizes, without concatenating them first. The steps
/// and constants are those of XXH3's paths for 129 to 240 and for 65 to 96 bytes (xxHash's specification, "XXH3
/// algorithm overview"). What is 16 bytes there is two words of eight bytes here.
class ParentAndTokens {
 public:
  ParentAndTokens(BlockHash parent, const TokenId* tokens)
      : parent_(parent.value()), tokens_(reinterpret_cast<const std::uint8_t*>(tokens)) {}

  template <std::size_t kTokens>
  [[nodiscard, gnu::always_inline]] BlockHash hash() const;

 private:
  /// The position of 16 bytes: their first word, and the offset of the corresponding bytes of the secret.
  struct At {
    std::size_t word;
    std::size_t secret;
  };
  template <At... kAt>
  [[nodiscard, gnu::always_inline]] std::uint64_t sum_of() const {
    std::uint64_t sum = 0;
    (add<kAt>(sum), ...);
    return sum;
  }
  // Added up at once, because otherwise compilers keep all products until the end, in more registers than there are.
  template <At kAt>
  [[gnu::always_inline]] void add(std::uint64_t& sum) const {
    sum += XXH3_mul128_fold64(word<kAt.word>() ^ XXH_readLE64(XXH3_kSecret + kAt.secret),
                              word<kAt.word + 1>() ^ XXH_readLE64(XXH3_kSecret + kAt.secret + 8));
    XXH_COMPILER_GUARD(sum);
  }
  template <std::size_t kNumber>
  [[nodiscard, gnu::always_inline]] std::uint64_t word() const {
    if constexpr (kNumber == 0) return parent_;
    return XXH_readLE64(tokens_ + (kNumber - 1) * sizeof(std::uint64_t));
  }

  std::uint64_t parent_;
  const std::uint8_t* tokens_;
};

// 136 bytes. The steps that do not depend on the parent come first.
template <>
inline BlockHash ParentAndTokens::hash<32>() const {
  const std::uint64_t tokens =
      136 * XXH_PRIME64_1 + sum_of<At{2, 16}, At{4, 32}, At{6, 48}, At{8, 64}, At{10, 80}, At{12, 96}, At{14, 112}>();
  const std::uint64_t last = sum_of<At{15, XXH3_SECRET_SIZE_MIN - XXH3_MIDSIZE_LASTOFFSET}>();
  return BlockHash(XXH3_avalanche(XXH3_avalanche(tokens + sum_of<At{0, 0}>()) + last));
}

// 72 bytes: from both ends towards the middle.
template <>
inline BlockHash ParentAndTokens::hash<16>() const {
  const std::uint64_t tokens = 72 * XXH_PRIME64_1 + sum_of<At{7, 16}, At{2, 32}, At{5, 48}, At{4, 64}, At{3, 80}>();
  return BlockHash(XXH3_avalanche(tokens + sum_of<At{0, 0}>()));
}

// A separate function, so that the usual sizes need no stack.
[[gnu::noinline]] BlockHash hash_of_any_size(BlockHash parent, std::span<const TokenId> tokens) {
  const std::size_t size = sizeof parent.value() + tokens.size_bytes();
  if (tokens.size() <= kInlineTokens) {
    std::array<std::uint8_t, sizeof parent.value() + kInlineTokens * sizeof(TokenId)> buffer;
    return hash_into(std::span(buffer).first(size), parent.value(), tokens);
  }
  std::vector<std::uint8_t> buffer(size);
  return hash_into(buffer, parent.value(), tokens);
}

template <std::size_t kTokens>
void hash_chain(BlockHash parent, const TokenId* tokens, std::span<BlockHash> hashes) {
  for (BlockHash& hash : hashes) {
    parent = ParentAndTokens(parent, tokens).hash<kTokens>();
    hash = parent;
    tokens += kTokens;
  }
}

}  // namespace

BlockHash root_hash(const PrefixIdentity& identity) {
  std::string bytes;
  append_part(bytes, identity.model);
  append_part(bytes, identity.lora);
  append_part(bytes, identity.cache_salt);
  return BlockHash(XXH3_64bits(bytes.data(), bytes.size()));
}

BlockHash chain_hash(BlockHash parent, std::span<const TokenId> block_tokens) {
  if (block_tokens.size() == 32) return ParentAndTokens(parent, block_tokens.data()).hash<32>();
  if (block_tokens.size() == 16) return ParentAndTokens(parent, block_tokens.data()).hash<16>();
  return hash_of_any_size(parent, block_tokens);
}

void chain_hashes(BlockHash parent, std::span<const TokenId> tokens, std::uint32_t block_size,
                  std::span<BlockHash> hashes) {
  if (block_size == 32) return hash_chain<32>(parent, tokens.data(), hashes);
  if (block_size == 16) return hash_chain<16>(parent, tokens.data(), hashes);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    parent = hash_of_any_size(parent, tokens.subspan(i * block_size, block_size));
    hashes[i] = parent;
  }
}

std::vector<BlockHash> hash_blocks(BlockHash root, std::span<const TokenId> tokens, std::uint32_t block_size) {
  KVIST_CHECK(block_size > 0, "a block holds at least one token");
  std::vector<BlockHash> hashes;
  hashes.reserve(tokens.size() / block_size);
  hash_blocks(root, tokens, block_size, hashes);
  return hashes;
}

void hash_blocks(BlockHash root, std::span<const TokenId> tokens, std::uint32_t block_size,
                 std::vector<BlockHash>& hashes) {
  KVIST_CHECK(block_size > 0, "a block holds at least one token");
  const std::size_t known = hashes.size();
  hashes.resize(known + tokens.size() / block_size);
  chain_hashes(root, tokens, block_size, std::span(hashes).subspan(known));
}

}  // namespace kvist::kv
