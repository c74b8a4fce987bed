#include "kvist/kv_index/kv_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace kvist::kv_index::kv_index_test {
namespace {

using ::testing::ElementsAre;

constexpr std::uint32_t kBlockSize = 4;
const std::string kModel = "m";

std::vector<TokenId> tokens(std::uint32_t blocks, std::uint32_t first = 0) {
  std::vector<TokenId> result;
  for (std::uint32_t i = 0; i < blocks * kBlockSize; ++i) result.emplace_back(first + i);
  return result;
}

std::vector<kv::BlockHash> keys_of(const std::vector<TokenId>& prompt, std::string_view lora = "",
                                   std::string_view salt = "", std::string_view model = kModel) {
  return kv::hash_blocks(kv::root_hash({.model = model, .lora = lora, .cache_salt = salt}), prompt, kBlockSize);
}

// A worker's own names for blocks, which are not related to their keys.
std::vector<kv::ExternalHash> names(std::uint64_t first, std::size_t count) {
  std::vector<kv::ExternalHash> result;
  for (std::size_t i = 0; i < count; ++i) result.emplace_back(first + i);
  return result;
}

kv::BlockStored stored(std::vector<kv::ExternalHash> hashes, std::vector<TokenId> content,
                       std::optional<kv::ExternalHash> parent = std::nullopt) {
  kv::BlockStored event;
  event.hashes = std::move(hashes);
  event.tokens = std::move(content);
  event.parent = parent;
  event.block_size = kBlockSize;
  return event;
}

kv::BlockRemoved removed(std::vector<kv::ExternalHash> hashes) {
  kv::BlockRemoved event;
  event.hashes = std::move(hashes);
  return event;
}

std::vector<std::uint32_t> depths(const KvIndex& index, const std::vector<kv::BlockHash>& keys, std::size_t workers) {
  std::vector<std::uint32_t> result(workers, 99);
  index.match(keys, result);
  return result;
}

std::uint64_t refused(const KvIndex& index, WorkerId worker, Refusal refusal) {
  return index.counters(worker).refused[static_cast<std::size_t>(refusal)];
}

class KvIndexTest : public ::testing::Test {
 protected:
  KvIndex index_{{.model = kModel, .block_size = kBlockSize}};
  WorkerId a_{0};
  WorkerId b_{1};
};

TEST_F(KvIndexTest, MatchesLeadingBlocksPerWorkerWhateverTheWorkersCallThem) {
  const auto prompt = tokens(4);
  EXPECT_FALSE(index_.apply(a_, stored(names(100, 4), prompt)));
  EXPECT_FALSE(index_.apply(b_, stored(names(7, 2), tokens(2))));
  EXPECT_THAT(depths(index_, keys_of(prompt), 3), ElementsAre(4, 2, 0));
  EXPECT_EQ(index_.worker_blocks(a_), 4U);
  EXPECT_EQ(index_.keys(), 4U);
}

TEST_F(KvIndexTest, ALongerPromptMatchesItsBeginningAndAnotherOneNothing) {
  index_.apply(a_, stored(names(1, 2), tokens(2)));
  EXPECT_THAT(depths(index_, keys_of(tokens(5)), 1), ElementsAre(2));
  EXPECT_THAT(depths(index_, keys_of(tokens(3, 1000)), 1), ElementsAre(0));
  EXPECT_THAT(depths(index_, {}, 1), ElementsAre(0));
}

TEST_F(KvIndexTest, LaterEventsContinueThroughTheParentsName) {
  index_.apply(a_, stored(names(1, 2), tokens(2)));
  index_.apply(a_, stored(names(10, 2), tokens(2, 2 * kBlockSize), kv::ExternalHash(2)));
  EXPECT_THAT(depths(index_, keys_of(tokens(4)), 1), ElementsAre(4));
}

TEST_F(KvIndexTest, AGapInThePrefixEndsTheMatch) {
  index_.apply(a_, stored(names(1, 4), tokens(4)));
  index_.apply(a_, removed({kv::ExternalHash(2)}));
  EXPECT_THAT(depths(index_, keys_of(tokens(4)), 1), ElementsAre(1));
  EXPECT_EQ(index_.worker_blocks(a_), 3U);
}

TEST_F(KvIndexTest, AnUnknownParentIsRefusedAndNeverReRooted) {
  EXPECT_EQ(index_.apply(a_, stored(names(1, 1), tokens(1), kv::ExternalHash(55))), Refusal::kUnknownParent);
  EXPECT_THAT(depths(index_, keys_of(tokens(1)), 1), ElementsAre(0));
  EXPECT_EQ(refused(index_, a_, Refusal::kUnknownParent), 1U);
  EXPECT_EQ(index_.keys(), 0U);
}

TEST_F(KvIndexTest, AParentOfAnotherWorkerIsNoParent) {
  index_.apply(a_, stored(names(1, 1), tokens(1)));
  EXPECT_EQ(index_.apply(b_, stored(names(2, 1), tokens(1, kBlockSize), kv::ExternalHash(1))), Refusal::kUnknownParent);
}

TEST_F(KvIndexTest, CopiesAreCountedPerWorker) {
  index_.apply(a_, stored(names(1, 2), tokens(2)));
  index_.apply(a_, stored(names(1, 2), tokens(2)));
  index_.apply(b_, stored(names(1, 2), tokens(2)));
  index_.apply(a_, removed(names(1, 2)));
  EXPECT_THAT(depths(index_, keys_of(tokens(2)), 2), ElementsAre(2, 2));
  index_.apply(a_, removed(names(1, 2)));
  EXPECT_THAT(depths(index_, keys_of(tokens(2)), 2), ElementsAre(0, 2));
  index_.apply(a_, removed(names(1, 2)));
  EXPECT_EQ(index_.counters(a_).unknown_removals, 2U);
  EXPECT_THAT(depths(index_, keys_of(tokens(2)), 2), ElementsAre(0, 2));
}

TEST_F(KvIndexTest, TwoNamesForTheSameTokensAreHeldUntilBothAreGone) {
  index_.apply(a_, stored(names(1, 1), tokens(1)));
  index_.apply(a_, stored(names(50, 1), tokens(1)));
  index_.apply(a_, removed(names(1, 1)));
  EXPECT_THAT(depths(index_, keys_of(tokens(1)), 1), ElementsAre(1));
  index_.apply(a_, removed(names(50, 1)));
  EXPECT_THAT(depths(index_, keys_of(tokens(1)), 1), ElementsAre(0));
  EXPECT_EQ(index_.keys(), 0U);
}

TEST_F(KvIndexTest, ANameThatMeantOtherTokensIsAConflict) {
  index_.apply(a_, stored(names(1, 1), tokens(1)));
  EXPECT_EQ(index_.apply(a_, stored(names(1, 1), tokens(1, 500))), Refusal::kConflict);
  EXPECT_THAT(depths(index_, keys_of(tokens(1)), 1), ElementsAre(1));
  EXPECT_THAT(depths(index_, keys_of(tokens(1, 500)), 1), ElementsAre(0));
}

TEST_F(KvIndexTest, ModelLoraAndSaltKeepEqualTokensApart) {
  auto salted = stored(names(1, 2), tokens(2));
  salted.cache_salt = "tenant";
  auto adapted = stored(names(11, 2), tokens(2));
  adapted.lora_name = "adapter";
  index_.apply(a_, salted);
  index_.apply(b_, adapted);
  EXPECT_THAT(depths(index_, keys_of(tokens(2)), 2), ElementsAre(0, 0));
  EXPECT_THAT(depths(index_, keys_of(tokens(2), "", "tenant"), 2), ElementsAre(2, 0));
  EXPECT_THAT(depths(index_, keys_of(tokens(2), "adapter"), 2), ElementsAre(0, 2));
  EXPECT_THAT(depths(index_, keys_of(tokens(2), "", "tenant", "other model"), 2), ElementsAre(0, 0));
}

TEST_F(KvIndexTest, RefusesWhatTokensAloneCannotIdentify) {
  auto size = stored(names(1, 1), tokens(2));
  size.block_size = 2 * kBlockSize;
  EXPECT_EQ(index_.apply(a_, size), Refusal::kBlockSize);
  auto image = stored(names(1, 1), tokens(1));
  image.other_extra_keys = true;
  EXPECT_EQ(index_.apply(a_, image), Refusal::kExtraKeys);
  auto host = stored(names(1, 1), tokens(1));
  host.medium = kv::Medium::kHost;
  EXPECT_EQ(index_.apply(a_, host), Refusal::kMedium);
  auto group = stored(names(1, 1), tokens(1));
  group.group = 1;
  EXPECT_EQ(index_.apply(a_, group), Refusal::kGroup);
  EXPECT_EQ(index_.apply(a_, stored(names(1, 2), tokens(1))), Refusal::kMalformed);
  for (const Refusal refusal :
       {Refusal::kBlockSize, Refusal::kExtraKeys, Refusal::kMedium, Refusal::kGroup, Refusal::kMalformed}) {
    EXPECT_EQ(refused(index_, a_, refusal), 1U) << to_string(refusal);
  }
  EXPECT_EQ(index_.keys(), 0U);
}

TEST_F(KvIndexTest, ARemovalFromHostMemoryLeavesTheDeviceCopy) {
  index_.apply(a_, stored(names(1, 1), tokens(1)));
  auto from_host = removed(names(1, 1));
  from_host.medium = kv::Medium::kHost;
  EXPECT_EQ(index_.apply(a_, from_host), Refusal::kMedium);
  EXPECT_THAT(depths(index_, keys_of(tokens(1)), 1), ElementsAre(1));
}

TEST_F(KvIndexTest, ClearingOneWorkerLeavesTheOthers) {
  index_.apply(a_, stored(names(1, 3), tokens(3)));
  index_.apply(b_, stored(names(1, 2), tokens(2)));
  EXPECT_FALSE(index_.apply(a_, kv::AllBlocksCleared{}));
  EXPECT_THAT(depths(index_, keys_of(tokens(3)), 2), ElementsAre(0, 2));
  EXPECT_EQ(index_.worker_blocks(a_), 0U);
  EXPECT_EQ(index_.keys(), 2U);
  EXPECT_EQ(index_.counters(a_).clears, 1U);
}

TEST_F(KvIndexTest, AWorkerThatNeverRemovesCannotFillTheMemory) {
  KvIndex small({.model = kModel, .block_size = kBlockSize, .max_blocks_per_worker = 3});
  EXPECT_FALSE(small.apply(a_, stored(names(1, 2), tokens(2))));
  EXPECT_EQ(small.apply(a_, stored(names(10, 2), tokens(2, 100))), Refusal::kCapacity);
  EXPECT_EQ(small.worker_blocks(a_), 2U);
}

TEST_F(KvIndexTest, GrowsBeyond64Workers) {
  for (const std::uint32_t worker : {0U, 63U, 64U, 130U}) {
    index_.apply(WorkerId(worker), stored(names(1, worker == 64 ? 3 : 2), tokens(worker == 64 ? 3 : 2)));
  }
  const auto found = depths(index_, keys_of(tokens(3)), 131);
  EXPECT_EQ(found[0], 2U);
  EXPECT_EQ(found[63], 2U);
  EXPECT_EQ(found[64], 3U);
  EXPECT_EQ(found[65], 0U);
  EXPECT_EQ(found[130], 2U);
  EXPECT_EQ(std::accumulate(found.begin(), found.end(), 0U), 9U);
}

TEST_F(KvIndexTest, WorkersBeyondTheSpanAreLeftOut) {
  index_.apply(WorkerId(5), stored(names(1, 1), tokens(1)));
  EXPECT_THAT(depths(index_, keys_of(tokens(1)), 2), ElementsAre(0, 0));
}

}  // namespace
}  // namespace kvist::kv_index::kv_index_test
