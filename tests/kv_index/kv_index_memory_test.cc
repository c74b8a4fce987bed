// The total memory per block, at every moment of growing and shrinking.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv_index/kv_index.h"

namespace kvist::kv_index::kv_index_memory_test {
namespace {

constexpr std::uint32_t kBlockSize = 1;
constexpr std::uint32_t kPromptBlocks = 50;

// A prompt for each number. Prompts share no block, and workers share no name.
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

// Each block comes in its own event, as while an answer is decoded.
TEST_F(KvIndexMemory, PromptsThatGrowTogetherBlockByBlockTakeAsMuch) {
  constexpr std::uint32_t kGrowing = 20'000;
  constexpr std::uint32_t kGrown = 12;
  for (std::uint32_t i = 0; i < kGrown; ++i) {
    for (std::uint32_t prompt = 0; prompt < kGrowing; ++prompt) {
      kv::BlockStored event = stored(prompt, 0);
      event.tokens = {event.tokens[i]};
      if (i > 0) event.parent = event.hashes[i - 1];
      event.hashes = {event.hashes[i]};
      ASSERT_FALSE(index_.apply(WorkerId(0), event));
      const std::uint32_t blocks = i * kGrowing + prompt + 1;
      if (blocks >= kGrowing) {
        ASSERT_LE(index_.bytes(), blocks * std::size_t{64}) << blocks << " blocks";
      }
    }
  }
  std::vector<kv::BlockHash> keys =
      kv::hash_blocks(kv::root_hash({.model = "model", .lora = "", .cache_salt = ""}), stored(7, 0).tokens, kBlockSize);
  keys.resize(kGrown);
  EXPECT_EQ(index_.match(keys).front().blocks, kGrown);
}

TEST_F(KvIndexMemory, ShortEndsOfASharedPrefixTakeAsMuch) {
  ASSERT_FALSE(index_.apply(WorkerId(0), stored(0, 0)));
  kv::BlockStored event = stored(0, 0);
  event.parent = event.hashes.back();
  for (std::uint32_t end = 0; end < 50'000; ++end) {
    event.tokens = {TokenId(end)};
    event.hashes = {kv::ExternalHash(mix_seed({end}))};
    ASSERT_FALSE(index_.apply(WorkerId(0), event));
    if (end >= 20'000) {
      ASSERT_LE(index_.bytes(), end * std::size_t{64});
    }
  }
}

// Holds for prompts of any length, also while whole prompts are removed again.
class KvIndexMemoryOfPrompts : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  static constexpr std::uint32_t kBlocks = 100'000;
  static constexpr std::uint32_t kFewest = 20'000;

  kv::BlockStored stored(std::uint32_t prompt) const {
    kv::BlockStored event;
    event.block_size = kBlockSize;
    for (std::uint32_t i = 0; i < GetParam(); ++i) {
      event.tokens.emplace_back(prompt * GetParam() + i);
      event.hashes.emplace_back(mix_seed({prompt, i}));
    }
    return event;
  }
  void check() {
    const std::size_t blocks = index_.worker_blocks(WorkerId(0));
    if (blocks < kFewest) return;
    most_ = std::max(most_, static_cast<double>(index_.bytes()) / static_cast<double>(blocks));
  }

  KvIndex index_{{.model = "model", .block_size = kBlockSize}};
  double most_ = 0;
};

TEST_P(KvIndexMemoryOfPrompts, TakesAtMost64BytesForABlock) {
  const std::uint32_t prompts = kBlocks / GetParam();
  for (std::uint32_t prompt = 0; prompt < prompts; ++prompt) {
    ASSERT_FALSE(index_.apply(WorkerId(0), stored(prompt)));
    check();
  }
  EXPECT_LE(most_, 64) << "while prompts come";
  most_ = 0;
  for (std::uint32_t prompt = 0; prompt < prompts; ++prompt) {
    kv::BlockRemoved event;
    const kv::BlockStored all = stored(prompt);
    event.hashes.assign(all.hashes.rbegin(), all.hashes.rend());
    ASSERT_FALSE(index_.apply(WorkerId(0), event));
    check();
  }
  EXPECT_LE(most_, 64) << "while prompts go";
  EXPECT_EQ(index_.keys(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Lengths, KvIndexMemoryOfPrompts,
                         ::testing::Values(1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 10U, 11U, 15U, 16U, 200U));

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
  EXPECT_LT(index_.bytes(), 10'000U * 520U);
}

}  // namespace
}  // namespace kvist::kv_index::kv_index_memory_test
