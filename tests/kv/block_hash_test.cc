#include "kvist/kv/block_hash.h"

#define XXH_INLINE_ALL
#include <gtest/gtest.h>
#include <xxhash.h>

#include <set>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::kv::block_hash_test {
namespace {

std::vector<TokenId> counted(std::uint32_t count, std::uint32_t first = 0) {
  std::vector<TokenId> tokens;
  for (std::uint32_t i = 0; i < count; ++i) tokens.emplace_back(first + i);
  return tokens;
}

const BlockHash kRoot = root_hash({.model = "model", .lora = "", .cache_salt = ""});

TEST(BlockHash, HashesOnlyCompleteBlocks) {
  EXPECT_EQ(hash_blocks(kRoot, {}, 4).size(), 0U);
  EXPECT_EQ(hash_blocks(kRoot, counted(3), 4).size(), 0U);
  EXPECT_EQ(hash_blocks(kRoot, counted(4), 4).size(), 1U);
  EXPECT_EQ(hash_blocks(kRoot, counted(11), 4).size(), 2U);
}

TEST(BlockHash, EachHashContinuesThePreviousOne) {
  for (const std::uint32_t size : {4U, 16U, 32U, 200U}) {
    const auto tokens = counted(3 * size);
    const auto names = hash_blocks(kRoot, tokens, size);
    BlockHash parent = kRoot;
    for (std::size_t block = 0; block < names.size(); ++block) {
      parent = chain_hash(parent, std::span(tokens).subspan(size * block, size));
      EXPECT_EQ(names[block], parent) << block << " of " << size;
    }
  }
}

TEST(BlockHash, HashesAreEqualExactlyForEqualPrefixes) {
  const auto tokens = counted(16);
  auto changed = tokens;
  changed[5] = TokenId(99);
  const auto names = hash_blocks(kRoot, tokens, 4);
  const auto other = hash_blocks(kRoot, changed, 4);
  EXPECT_EQ(names[0], other[0]);
  for (std::size_t block = 1; block < 4; ++block) EXPECT_NE(names[block], other[block]) << block;
  const auto shorter = hash_blocks(kRoot, std::span(tokens).first(9), 4);
  EXPECT_EQ(shorter, std::vector(names.begin(), names.begin() + 2));
}

TEST(BlockHash, EveryPartOfTheIdentityCounts) {
  std::set<BlockHash> roots;
  roots.insert(root_hash({.model = "ab", .lora = "", .cache_salt = ""}));
  roots.insert(root_hash({.model = "a", .lora = "b", .cache_salt = ""}));
  roots.insert(root_hash({.model = "a", .lora = "", .cache_salt = "b"}));
  roots.insert(root_hash({.model = "", .lora = "ab", .cache_salt = ""}));
  roots.insert(root_hash({.model = "", .lora = "a", .cache_salt = "b"}));
  roots.insert(root_hash({.model = "", .lora = "", .cache_salt = "ab"}));
  roots.insert(root_hash({.model = "", .lora = "", .cache_salt = ""}));
  EXPECT_EQ(roots.size(), 7U);
}

TEST(BlockHash, LargeBlocksDifferInTheirLastToken) {
  auto tokens = counted(1000);
  const BlockHash name = chain_hash(kRoot, tokens);
  EXPECT_EQ(name, chain_hash(kRoot, tokens));
  tokens.back() = TokenId(0);
  EXPECT_NE(name, chain_hash(kRoot, tokens));
}

TEST(BlockHash, HashesAreTheSameInEveryBuild) {
  // Gateways and workers of different builds exchange hashes, and recorded runs are read later: these values never
  // change.
  EXPECT_EQ(kRoot.value(), 10766667051706156382U);
  EXPECT_EQ(chain_hash(kRoot, counted(32)).value(), 396985358993512698U);
  EXPECT_EQ(chain_hash(kRoot, counted(1000)).value(), 14885179676148599878U);
}

TEST(BlockHash, IsXxh3OfTheParentAndTheBlocksTokens) {
  RandomStream random(6);
  for (int round = 0; round < 1'000; ++round) {
    for (const std::size_t length : {1UL, 16UL, 31UL, 32UL, 33UL, 64UL, 200UL}) {
      const BlockHash parent(random.next());
      std::vector<TokenId> tokens;
      std::vector<std::uint32_t> bytes = {static_cast<std::uint32_t>(parent.value()),
                                          static_cast<std::uint32_t>(parent.value() >> 32)};
      for (std::size_t i = 0; i < length; ++i) bytes.push_back(static_cast<std::uint32_t>(random.next()));
      for (std::size_t i = 0; i < length; ++i) tokens.emplace_back(bytes[i + 2]);
      ASSERT_EQ(chain_hash(parent, tokens).value(), XXH3_64bits(bytes.data(), bytes.size() * sizeof bytes[0]))
          << length << " tokens";
    }
  }
}

}  // namespace
}  // namespace kvist::kv::block_hash_test
