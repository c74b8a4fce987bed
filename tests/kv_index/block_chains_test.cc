// Compares compressed paths of blocks with a plain tree: every key is in one place, is found from its parent, and is
// removed at the right time.
#include "kvist/kv_index/block_chains.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/kv_index/epochs.h"
#include "kvist/kv_index/index_memory.h"

namespace kvist::kv_index::block_chains_test {
namespace {

constexpr WorkerSetHandle kHeld = 1;

class Chains : public ::testing::Test {
 protected:
  // Puts a new block. Either nothing is known of the blocks that follow it, or they are worth a chunk.
  BlockRef put(BlockRef parent, std::uint64_t key, std::size_t coming = BlockChunk::kBlocks) {
    EXPECT_EQ(chains_.find(parent, key), 0U) << "key " << key;
    const BlockRef appended = chains_.append(parent, key, kHeld, BlockUse());
    return appended != 0 ? appended : chains_.put(parent, key, kHeld, BlockUse(), {.coming = coming});
  }
  // Puts blocks with the keys `first`, `first` + 1 and so on, each behind the one before.
  std::vector<BlockRef> put_chain(BlockRef parent, std::uint64_t first, std::uint32_t blocks) {
    std::vector<BlockRef> result;
    for (std::uint32_t i = 0; i < blocks; ++i) {
      parent = put(parent, first + i);
      result.push_back(parent);
    }
    return result;
  }

  Epochs epochs_;
  IndexMemory memory_{epochs_, std::size_t{1} << 30};
  BlockChains chains_{memory_, epochs_};
};

TEST_F(Chains, BlocksThatFollowEachOtherLieBehindEachOther) {
  const std::vector<BlockRef> refs = put_chain(0, 100, 3 * BlockChunk::kBlocks);
  for (std::uint32_t i = 0; i < refs.size(); ++i) {
    EXPECT_EQ(BlockChains::number_of(refs[i]), i % BlockChunk::kBlocks);
    EXPECT_EQ(chains_.block(refs[i]).key(), 100 + i);
    EXPECT_EQ(chains_.find(i == 0 ? 0 : refs[i - 1], 100 + i), refs[i]);
    EXPECT_EQ(chains_.find_shared(100 + i), i % BlockChunk::kBlocks == 0 ? refs[i] : 0) << "only first ones are hashed";
  }
  EXPECT_EQ(chains_.size(), refs.size());
}

TEST_F(Chains, ABlockThatNobodyHoldsStaysAsLongAsSomethingFollowsIt) {
  const std::vector<BlockRef> refs = put_chain(0, 1, 4);
  const BlockRef branch = put(refs[1], 50);
  chains_.let_go(refs[3]);
  chains_.let_go(refs[1]);
  chains_.let_go(refs[2]);
  EXPECT_EQ(chains_.size(), 2U);
  EXPECT_EQ(chains_.find(refs[1], 3), 0U) << "nothing followed it";
  EXPECT_EQ(chains_.find(refs[0], 2), refs[1]) << "the branch follows it";
  EXPECT_EQ(chains_.find(refs[1], 50), branch);
  chains_.hold(chains_.block(refs[1]), kHeld, BlockUse());
  EXPECT_EQ(chains_.size(), 3U);
  chains_.let_go(refs[1]);
  chains_.let_go(branch);
  EXPECT_EQ(chains_.find(refs[0], 2), 0U);
  chains_.let_go(refs[0]);
  EXPECT_EQ(chains_.find(0, 1), 0U);
  EXPECT_EQ(chains_.size(), 0U);
  EXPECT_EQ(memory_.bytes(), 0U);
}

// In the mode for short memory, which applies here because no blocks are counted.
TEST_F(Chains, FewBlocksLieByThemselves) {
  const BlockRef first = put(0, 1, 3);
  const BlockRef second = put(first, 2, 2);
  const BlockRef branch = put(first, 3, 1);
  EXPECT_TRUE(BlockChains::is_lone(first) && BlockChains::is_lone(second) && BlockChains::is_lone(branch));
  const BlockRef chunk = put(second, 4, 4);
  EXPECT_FALSE(BlockChains::is_lone(chunk));
  EXPECT_EQ(put(chunk, 5, 1), chunk + 1);
  EXPECT_EQ(chains_.find(0, 1), first);
  EXPECT_EQ(chains_.find(first, 2), second);
  EXPECT_EQ(chains_.find(first, 3), branch);
  EXPECT_EQ(chains_.find(second, 4), chunk);
  EXPECT_EQ(chains_.find_shared(3), branch);
  chains_.let_go(first);
  chains_.let_go(branch);
  EXPECT_EQ(chains_.find(first, 3), 0U);
  EXPECT_EQ(chains_.find(0, 1), first) << "the second follows it";
  chains_.let_go(second);
  chains_.let_go(chunk);
  EXPECT_EQ(chains_.find(0, 1), first);
  chains_.let_go(chunk + 1);
  EXPECT_EQ(chains_.find(0, 1), 0U);
  EXPECT_EQ(memory_.bytes(), 0U);
}

TEST_F(Chains, FewBlocksMakeAChunkWhereMemoryIsAmple) {
  memory_.count_blocks(10'000);
  const BlockRef first = put(0, 1, 1);
  EXPECT_FALSE(BlockChains::is_lone(first));
  EXPECT_EQ(put(first, 2, 1), first + 1);
}

TEST_F(Chains, APathThatGrowsGetsAChunkSooner) {
  constexpr std::ptrdiff_t kBlocks = 100'000;
  memory_.count_blocks(kBlocks);
  memory_.count(58 * kBlocks);
  const BlockRef first = put(0, 1, 1);
  const BlockRef second = put(first, 2, 1);
  EXPECT_TRUE(BlockChains::is_lone(first) && BlockChains::is_lone(second));
  ASSERT_EQ(chains_.find(second, 3), 0U);
  const BlockRef decoded = chains_.put(second, 3, kHeld, BlockUse(), {.grows = true});
  EXPECT_FALSE(BlockChains::is_lone(decoded));
  EXPECT_EQ(put(decoded, 4), decoded + 1);
  ASSERT_EQ(chains_.find(second, 5), 0U);
  EXPECT_TRUE(BlockChains::is_lone(chains_.put(second, 5, kHeld, BlockUse(), {.grows = true}))) << "a branch";
}

// The hash table knows the exclusive or of a key's halves.
TEST_F(Chains, KeysWithTheSameHashAreToldApart) {
  const auto key = [](std::uint64_t i) { return i << 32 | (i ^ 7); };
  std::vector<BlockRef> refs;
  for (std::uint64_t i = 1; i <= 200; ++i) refs.push_back(put(0, key(i), i % 2 == 0 ? 1 : BlockChunk::kBlocks));
  for (std::uint64_t gone = 0; gone <= 200; ++gone) {
    for (std::uint64_t i = 1; i <= 200; ++i) {
      const BlockRef expected = i <= gone ? 0 : refs[i - 1];
      ASSERT_EQ(chains_.find(0, key(i)), expected) << i << " of 200, " << gone << " are gone";
      ASSERT_EQ(chains_.find_shared(key(i)), expected);
    }
    ASSERT_EQ(chains_.find(0, key(201)), 0U);
    if (gone < 200) chains_.let_go(refs[gone]);
  }
  EXPECT_EQ(memory_.bytes(), 0U);
}

TEST_F(Chains, MoreBranchesThanAChunkCountsComeAndGo) {
  const BlockRef parent = put(0, 1);
  std::vector<BlockRef> branches;
  for (std::uint64_t i = 0; i < 1'000; ++i) branches.push_back(put(parent, 1'000 + i));
  chains_.let_go(parent);
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    ASSERT_EQ(chains_.find(0, 1), parent) << i << " of 1,000 branches are gone";
    ASSERT_EQ(chains_.find(parent, 1'000 + i), branches[i]);
    chains_.let_go(branches[i]);
  }
  EXPECT_EQ(chains_.find(0, 1), 0U);
  EXPECT_EQ(memory_.bytes(), 0U);
}

TEST_F(Chains, AKeyThatAnotherPrefixHasIsRefused) {
  put(0, 1);
  const BlockRef other = put(0, 2);
  put_chain(other, 10, BlockChunk::kBlocks - 1);  // the chunk is full
  EXPECT_EQ(chains_.put(chains_.find(0, 2) + BlockChunk::kBlocks - 1, 1, kHeld, BlockUse(), {}), 0U);
  EXPECT_EQ(chains_.size(), 1U + BlockChunk::kBlocks);
}

TEST_F(Chains, PlacesAreNotUsedForAnotherKeyWhileAReaderMayLook) {
  const auto reader = epochs_.add_reader();
  reader->epoch = epochs_.current();
  const BlockRef first = put(0, 1);
  const BlockRef second = put(first, 2);
  chains_.let_go(second);
  const BlockRef other = put(first, 3);
  EXPECT_NE(other, second) << "a reader that knew the place would take key 3's holders for key 2's";
  EXPECT_EQ(chains_.find(first, 3), other);
  chains_.let_go(other);
  reader->epoch = Epochs::Announcement::kGone;
  epochs_.advance();
  chains_.reclaim();
  EXPECT_EQ(put(first, 4), second);
}

// A tree of random shape whose blocks are held and let go in any order.
void compare_with_tree(std::uint64_t seed, double branching, double holding) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomStream random(seed);
  Epochs epochs;
  IndexMemory memory(epochs, std::size_t{1} << 30);
  BlockChains chains(memory, epochs);
  constexpr std::size_t kNodes = 400;
  std::vector<std::size_t> parents{0};  // node 0 is no block
  while (parents.size() <= kNodes) {
    const bool branches = random.uniform() < branching;
    const auto last = static_cast<std::int64_t>(parents.size()) - 1;
    parents.push_back(branches ? static_cast<std::size_t>(random.uniform_int(0, last)) : parents.size() - 1);
  }
  std::map<std::size_t, BlockRef> held;
  for (int step = 0; step < 20'000; ++step) {
    const auto node = static_cast<std::size_t>(random.uniform_int(1, kNodes));
    const std::size_t parent = parents[node];
    if (const auto known = held.find(node); known != held.end()) {
      ASSERT_EQ(chains.block(known->second).key(), node);
      if (parent == 0 || held.contains(parent)) {
        ASSERT_EQ(chains.find(parent == 0 ? 0 : held[parent], node), known->second);
      }
      if (random.uniform() < holding) continue;
      chains.let_go(known->second);
      held.erase(known);
    } else if (parent == 0 || held.contains(parent)) {
      const BlockRef at = parent == 0 ? 0 : held[parent];
      if (const BlockRef found = chains.find(at, node); found != 0) {
        ASSERT_EQ(chains.block(found).set(), WorkerSetPool::kEmpty);
        chains.hold(chains.block(found), kHeld, BlockUse());
        held[node] = found;
      } else {
        const BlockRef appended = chains.append(at, node, kHeld, BlockUse());
        const auto coming = static_cast<std::size_t>(random.uniform_int(3, 4));  // 3: a lone block; 4: a chunk
        held[node] = appended != 0 ? appended : chains.put(at, node, kHeld, BlockUse(), {.coming = coming});
        ASSERT_NE(held[node], 0U);
      }
    }
    ASSERT_EQ(chains.size(), held.size());
  }
  for (const auto& [node, ref] : held) chains.let_go(ref);
  EXPECT_EQ(chains.size(), 0U);
  EXPECT_EQ(memory.bytes(), 0U);
}

TEST(BlockChainsAgainstATree, FindsEveryBlockFromItsParent) {
  compare_with_tree(1, 0.05, 0.5);
  compare_with_tree(2, 0.3, 0.5);
  compare_with_tree(3, 0.9, 0.2);
  compare_with_tree(4, 0.02, 0.9);
}

}  // namespace
}  // namespace kvist::kv_index::block_chains_test
