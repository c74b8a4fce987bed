#include "kvist/kv/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/base/flat_map.h"
#include "kvist/base/random.h"

namespace kvist::kv::block_pool_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr std::uint32_t kBlockSize = 2;
const std::vector<TokenId> kTokens = {TokenId(7), TokenId(8)};

/// Makes `block` findable by `number`, at the start of a prompt.
void commit_one(BlockPool& pool, BlockId block, std::uint64_t number) {
  const BlockHash hash(number);
  pool.commit({&block, 1}, {&hash, 1}, std::nullopt, kTokens);
}

std::vector<BlockId> allocate_all(BlockPool& pool) {
  std::vector<BlockId> blocks;
  while (const auto block = pool.allocate()) blocks.push_back(*block);
  return blocks;
}

TEST(BlockPool, HandsOutEachBlockOnce) {
  BlockPool pool(3, kBlockSize);
  EXPECT_EQ(pool.free_blocks(), 3U);
  EXPECT_THAT(allocate_all(pool), ElementsAre(BlockId(0), BlockId(1), BlockId(2)));
  EXPECT_EQ(pool.free_blocks(), 0U);
  EXPECT_EQ(pool.used_blocks(), 3U);
  EXPECT_EQ(pool.allocate(), std::nullopt);
  EXPECT_EQ(pool.counters().allocations, 3U);
}

TEST(BlockPool, AnEmptyPoolHasNothing) {
  BlockPool pool(0, kBlockSize);
  EXPECT_EQ(pool.allocate(), std::nullopt);
}

TEST(BlockPool, ReleasedBlocksStayFindableUntilTheyAreReused) {
  BlockPool pool(1, kBlockSize);
  const BlockId block = *pool.allocate();
  commit_one(pool, block, 100);
  pool.release(block);
  EXPECT_EQ(pool.find(BlockHash(100)), block);
  EXPECT_EQ(pool.free_blocks(), 1U);

  EXPECT_EQ(pool.allocate(), block);
  EXPECT_EQ(pool.find(BlockHash(100)), std::nullopt);
  EXPECT_EQ(pool.counters().evictions, 1U);
}

TEST(BlockPool, AcquiringAFreeBlockTakesItOutOfReuse) {
  BlockPool pool(2, kBlockSize);
  const auto blocks = allocate_all(pool);
  commit_one(pool, blocks[0], 100);
  commit_one(pool, blocks[1], 101);
  pool.release(blocks[0]);
  pool.release(blocks[1]);
  pool.acquire(blocks[0]);
  EXPECT_EQ(pool.references(blocks[0]), 1U);
  EXPECT_EQ(pool.allocate(), blocks[1]);
  EXPECT_EQ(pool.allocate(), std::nullopt);
}

TEST(BlockPool, SharedBlocksAreFreeOnlyAfterTheirLastHolder) {
  BlockPool pool(1, kBlockSize);
  const BlockId block = *pool.allocate();
  commit_one(pool, block, 100);
  pool.acquire(block);
  EXPECT_EQ(pool.references(block), 2U);
  pool.release(block);
  EXPECT_EQ(pool.free_blocks(), 0U);
  pool.release(block);
  EXPECT_EQ(pool.free_blocks(), 1U);
}

TEST(BlockPool, ReusesNamelessBlocksFirstThenTheLeastRecentlyReleased) {
  BlockPool pool(4, kBlockSize);
  const auto blocks = allocate_all(pool);
  for (const std::size_t i : {0U, 1U, 3U}) commit_one(pool, blocks[i], 100 + i);
  for (const std::size_t i : {3U, 0U, 2U, 1U}) pool.release(blocks[i]);
  EXPECT_THAT(allocate_all(pool), ElementsAre(blocks[2], blocks[3], blocks[0], blocks[1]));
}

TEST(BlockPool, AnotherUseMakesABlockRecentAgain) {
  BlockPool pool(2, kBlockSize);
  const auto blocks = allocate_all(pool);
  commit_one(pool, blocks[0], 100);
  commit_one(pool, blocks[1], 101);
  pool.release(blocks[0]);
  pool.release(blocks[1]);
  pool.acquire(blocks[0]);
  pool.release(blocks[0]);
  EXPECT_THAT(allocate_all(pool), ElementsAre(blocks[1], blocks[0]));
}

TEST(BlockPool, FindPrefersACopyInUse) {
  BlockPool pool(3, kBlockSize);
  const auto blocks = allocate_all(pool);
  for (const BlockId block : blocks) commit_one(pool, block, 100);
  pool.release(blocks[2]);
  pool.release(blocks[0]);
  EXPECT_EQ(pool.find(BlockHash(100)), blocks[1]);
  pool.acquire(blocks[0]);
  pool.release(blocks[1]);
  EXPECT_EQ(pool.find(BlockHash(100)), blocks[0]);
}

TEST(BlockPool, ANameLastsAsLongAsItsLastCopy) {
  BlockPool pool(2, kBlockSize);
  const auto blocks = allocate_all(pool);
  commit_one(pool, blocks[0], 100);
  commit_one(pool, blocks[1], 100);
  EXPECT_THAT(pool.findable(), UnorderedElementsAre(Pair(BlockHash(100), 2)));
  pool.release(blocks[0]);
  pool.release(blocks[1]);
  EXPECT_EQ(pool.allocate(), blocks[0]);
  EXPECT_EQ(pool.find(BlockHash(100)), blocks[1]);
  EXPECT_THAT(pool.findable(), UnorderedElementsAre(Pair(BlockHash(100), 1)));
  EXPECT_EQ(pool.allocate(), blocks[1]);
  EXPECT_EQ(pool.find(BlockHash(100)), std::nullopt);
}

TEST(BlockPool, TellsWhatChangedInOrder) {
  BlockPool pool(2, kBlockSize);
  auto blocks = allocate_all(pool);
  const std::vector<BlockHash> hashes = {BlockHash(100), BlockHash(101)};
  const std::vector<TokenId> tokens = {TokenId(1), TokenId(2), TokenId(3), TokenId(4)};
  pool.commit(blocks, hashes, BlockHash(99), tokens);
  pool.release(blocks[1]);
  ASSERT_EQ(pool.allocate(), blocks[1]);
  pool.clear_hashes();

  const auto events = pool.take_events();
  ASSERT_EQ(events.size(), 3U);
  const BlockStored stored{.hashes = {ExternalHash(100), ExternalHash(101)},
                           .parent = ExternalHash(99),
                           .tokens = tokens,
                           .block_size = kBlockSize,
                           .lora_name = {},
                           .cache_salt = {}};
  EXPECT_EQ(events[0], KvEvent(stored));
  EXPECT_EQ(events[1], KvEvent(BlockRemoved{.hashes = {ExternalHash(101)}}));
  EXPECT_EQ(events[2], KvEvent(AllBlocksCleared{}));
  EXPECT_TRUE(pool.take_events().empty());
  EXPECT_EQ(pool.counters().stored_blocks, 2U);
}

TEST(BlockPool, TheSaltComesWithAPromptsFirstBlockTheLoraWithAll) {
  BlockPool pool(2, kBlockSize);
  const auto blocks = allocate_all(pool);
  const std::vector<BlockHash> hashes = {BlockHash(100), BlockHash(101)};
  const PrefixIdentity identity{.model = "m", .lora = "adapter", .cache_salt = "salty"};
  pool.commit(std::span(blocks).first(1), std::span(hashes).first(1), std::nullopt, kTokens, identity);
  pool.commit(std::span(blocks).last(1), std::span(hashes).last(1), hashes[0], kTokens, identity);
  const auto events = pool.take_events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(std::get<BlockStored>(events[0]).cache_salt, "salty");
  EXPECT_EQ(std::get<BlockStored>(events[0]).lora_name, "adapter");
  EXPECT_EQ(std::get<BlockStored>(events[1]).cache_salt, "");
  EXPECT_EQ(std::get<BlockStored>(events[1]).lora_name, "adapter");
}

TEST(BlockPool, ClearingNamesKeepsBlocksWithTheirHolders) {
  BlockPool pool(2, kBlockSize);
  const auto blocks = allocate_all(pool);
  commit_one(pool, blocks[0], 100);
  commit_one(pool, blocks[1], 101);
  pool.release(blocks[1]);
  pool.clear_hashes();
  EXPECT_TRUE(pool.findable().empty());
  EXPECT_EQ(pool.references(blocks[0]), 1U);
  EXPECT_EQ(pool.free_blocks(), 1U);
  (void)pool.take_events();

  // A block in use may become findable again, and a free one is allocated without a removal event.
  commit_one(pool, blocks[0], 200);
  EXPECT_EQ(pool.allocate(), blocks[1]);
  EXPECT_EQ(pool.take_events().size(), 1U);
  EXPECT_EQ(pool.counters().evictions, 0U);
}

TEST(BlockPool, CommittingNothingSaysNothing) {
  BlockPool pool(1, kBlockSize);
  pool.commit({}, {}, std::nullopt, {});
  EXPECT_TRUE(pool.take_events().empty());
}

TEST(BlockPoolDeathTest, RefusesWhatBreaksItsInvariants) {
  BlockPool pool(1, kBlockSize);
  EXPECT_DEATH(pool.release(BlockId(0)), "not held");
  EXPECT_DEATH(pool.acquire(BlockId(0)), "nothing to share");
  EXPECT_DEATH(pool.acquire(BlockId(1)), "no block 1");
  EXPECT_DEATH(commit_one(pool, BlockId(0), 100), "not held");
  const BlockId block = *pool.allocate();
  commit_one(pool, block, 100);
  EXPECT_DEATH(commit_one(pool, block, 101), "is findable already");
}

// XXH3 has no key, so that who chooses prompts chooses the hashes of their blocks.
TEST(BlockPool, HashesChosenToMeetDoNot) {
  constexpr std::uint32_t kBlocks = 4'000;
  std::uint64_t inverse = GoldenSpread::kMultiplier;  // Newton's method, modulo 2^64
  for (int i = 0; i < 6; ++i) inverse *= 2 - GoldenSpread::kMultiplier * inverse;
  BlockPool pool(kBlocks, kBlockSize);
  const std::vector<BlockId> blocks = allocate_all(pool);
  for (std::uint64_t i = 0; i < kBlocks; ++i) commit_one(pool, blocks[i], inverse * (mix_seed({i}) >> 24));
  EXPECT_EQ(pool.findable().size(), kBlocks);
  EXPECT_LT(pool.longest_search(), kBlocks / 10);
}

}  // namespace
}  // namespace kvist::kv::block_pool_test
