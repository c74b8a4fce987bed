// What a block costs, all in, at every moment of growing and shrinking.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "kvist/base/random.h"
#include "kvist/routing/kv_index.h"

namespace kvist::routing {
namespace {

constexpr std::uint32_t kBlockSize = 1;
constexpr std::uint32_t kPromptBlocks = 50;

// One prompt of its own for each number, under names of the worker's own.
kv::BlockStored stored(std::uint32_t prompt, std::uint32_t worker) {
  kv::BlockStored event;
  event.block_size = kBlockSize;
  for (std::uint32_t i = 0; i < kPromptBlocks; ++i) {
    event.tokens.emplace_back(prompt * kPromptBlocks + i);
    event.hashes.emplace_back(mix_seed({prompt, i, worker}));
  }
  return event;
}

kv::BlockRemoved removed(std::uint32_t prompt, std::uint32_t worker) {
  kv::BlockRemoved event;
  for (std::uint32_t i = kPromptBlocks; i-- > 0;) event.hashes.emplace_back(mix_seed({prompt, i, worker}));
  return event;
}

class KvIndexMemory : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kPrompts = 3'000;  // 150,000 blocks

  void check(std::uint32_t prompts) {
    if (prompts < 100) return;
    ASSERT_LE(index_.bytes() - empty_, prompts * kPromptBlocks * 64U) << prompts << " prompts";
  }

  KvIndex index_{{.model = "model", .block_size = kBlockSize}};
  std::size_t empty_ = index_.bytes();
};

TEST_F(KvIndexMemory, ABlockOfOneWorkerTakesAtMost64BytesWhileTheTablesGrowAndShrink) {
  for (std::uint32_t prompt = 0; prompt < kPrompts; ++prompt) {
    ASSERT_FALSE(index_.apply(WorkerId(0), stored(prompt, 0)));
    ASSERT_NO_FATAL_FAILURE(check(prompt + 1));
  }
  for (std::uint32_t prompt = 0; prompt < kPrompts; ++prompt) {
    ASSERT_FALSE(index_.apply(WorkerId(0), removed(prompt, 0)));
    ASSERT_NO_FATAL_FAILURE(check(kPrompts - prompt - 1));
  }
  EXPECT_EQ(index_.keys(), 0U);
  EXPECT_LT(index_.bytes(), 10'000U) << "memory comes back when prompts are gone";
}

TEST_F(KvIndexMemory, BlocksOfManyWorkersTakeAsMuch) {
  for (std::uint32_t prompt = 0; prompt < kPrompts; ++prompt) {
    ASSERT_FALSE(index_.apply(WorkerId(prompt % 10), stored(prompt, prompt % 10)));
    ASSERT_NO_FATAL_FAILURE(check(prompt + 1));
  }
}

// A chunk is for seven blocks: prompts that leave much of their last one empty take more, and how much is known.
TEST(KvIndexMemoryOfPrompts, TakesNoMoreForAnyLengthThanItSays) {
  constexpr std::pair<std::uint32_t, double> kMost[] = {{1, 190}, {2, 110}, {3, 84}, {4, 70},  {5, 64},  {6, 64},
                                                        {7, 64},  {8, 70},  {9, 66}, {10, 64}, {16, 64}, {200, 64}};
  for (const auto& [length, most] : kMost) {
    KvIndex index({.model = "model", .block_size = kBlockSize});
    std::uint32_t blocks = 0;
    for (std::uint32_t prompt = 0; blocks < 100'000; ++prompt) {
      kv::BlockStored event;
      event.block_size = kBlockSize;
      for (std::uint32_t i = 0; i < length; ++i) {
        event.tokens.emplace_back(blocks++);
        event.hashes.emplace_back(mix_seed({prompt, i}));
      }
      ASSERT_FALSE(index.apply(WorkerId(0), event));
      if (blocks < 20'000) continue;
      ASSERT_LE(static_cast<double>(index.bytes()), most * blocks) << blocks << " blocks in prompts of " << length;
    }
  }
}

TEST_F(KvIndexMemory, AFurtherWorkerTakesItsNamesAndHardlyMore) {
  constexpr std::uint32_t kFew = 400;
  for (std::uint32_t prompt = 0; prompt < kFew; ++prompt) index_.apply(WorkerId(0), stored(prompt, 0));
  for (std::uint32_t worker = 1; worker < 130; ++worker) {
    const std::size_t before = index_.bytes();
    for (std::uint32_t prompt = 0; prompt < kFew; ++prompt) index_.apply(WorkerId(worker), stored(prompt, worker));
    ASSERT_LE(index_.bytes() - before, kFew * kPromptBlocks * 31U) << "worker " << worker;
  }
  EXPECT_EQ(index_.keys(), kFew * kPromptBlocks);
  for (std::uint32_t worker = 0; worker < 130; ++worker) index_.clear(WorkerId(worker));
  EXPECT_EQ(index_.keys(), 0U);
  EXPECT_LT(index_.bytes(), 10'000U + 130U * 1'000U);
}

TEST_F(KvIndexMemory, WorkersThatCameAndWentLeaveARecordEach) {
  for (std::uint32_t worker = 0; worker < 10'000; ++worker) {
    index_.apply(WorkerId(worker), stored(worker % 50, worker));
    if (worker >= 20) index_.clear(WorkerId(worker - 20));
  }
  for (std::uint32_t worker = 10'000 - 20; worker < 10'000; ++worker) index_.clear(WorkerId(worker));
  EXPECT_EQ(index_.keys(), 0U);
  EXPECT_LT(index_.bytes(), 10'000U * 512U);
}

}  // namespace
}  // namespace kvist::routing
