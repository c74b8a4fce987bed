// The byte budget: what is evicted, what stays, and that nothing is invented.
#include <gtest/gtest.h>

#include "kv_index/kv_index_model.h"

namespace kvist::kv_index::kv_index_eviction_test {
namespace {

constexpr WorkerId kWorker{0};

// With the whole prefix.
bool knows(const KvIndex& index, std::uint32_t worker, std::span<const kv::BlockHash> keys) {
  for (const WorkerMatch& match : index.match(keys)) {
    if (match.worker == WorkerId(worker)) return match.blocks == keys.size();
  }
  return false;
}

// Compares the index with what the workers really hold: it has no block that is not held, and the blocks that stay have
// their whole prefix, so that a look-up finds all of them.
void check_all(IndexHistory& history) {
  std::vector<std::size_t> known(history.options().workers);
  for (std::size_t node = 1; node < history.tree().size(); ++node) {
    const std::vector<kv::BlockHash> keys = history.tree().keys(node);
    for (std::uint32_t worker = 0; worker < history.options().workers; ++worker) {
      if (!knows(history.index(), worker, keys)) continue;
      ASSERT_TRUE(history.holds(worker, node)) << "worker " << worker << " never held node " << node;
      ++known[worker];
    }
  }
  for (std::uint32_t worker = 0; worker < history.options().workers; ++worker) {
    ASSERT_EQ(known[worker], history.index().worker_blocks(WorkerId(worker)))
        << "worker " << worker << " kept blocks and lost what comes before them";
  }
}

void run(std::uint64_t seed, const HistoryOptions& options, int steps, int steps_per_check) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  IndexHistory history(seed, options);
  for (int i = 0; i < steps; ++i) {
    history.step();
    ASSERT_LE(history.index().bytes(), options.max_bytes);
    const std::size_t node = history.random_node();
    const auto path = history.tree().path(node);
    for (const WorkerMatch& match : history.index().match(history.tree().keys(node))) {
      ASSERT_LE(match.blocks, history.depth(match.worker.value(), path));
    }
    if (!options.copies && i % steps_per_check == 0) {
      ASSERT_NO_FATAL_FAILURE(check_all(history));
    }
  }
  std::uint64_t evicted = 0;
  for (std::uint32_t worker = 0; worker < options.workers; ++worker) {
    evicted += history.index().counters(WorkerId(worker)).evicted_blocks;
  }
  EXPECT_GT(evicted, 0U) << "the budget was never felt";
  EXPECT_GT(history.index().evictions(), 0U);
  history.remove_everything();
  EXPECT_EQ(history.index().keys(), 0U);
}

TEST(KvIndexEviction, KnowsLessAndNeverMoreWithinItsBytes) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    ASSERT_NO_FATAL_FAILURE(run(
        seed, {.workers = 4, .nodes = 20'000, .copies = false, .removals = 0.1, .clears = 0.001, .max_bytes = 600'000},
        4'000, 2'000));
  }
}

TEST(KvIndexEviction, HoldsWithCopiesAndRemovalsInAnyOrder) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    ASSERT_NO_FATAL_FAILURE(run(
        seed, {.workers = 4, .nodes = 20'000, .removals = 0.2, .clears = 0.001, .max_bytes = 600'000}, 4'000, 2'000));
  }
}

class Budget : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBlocks = 10;

  // A prompt of kBlocks blocks that no other shares, its names counted on from number * kBlocks.
  static std::vector<TokenId> prompt(std::uint32_t number, std::uint32_t blocks = kBlocks) {
    std::vector<TokenId> tokens;
    for (std::uint32_t i = 0; i < blocks * kModelBlockSize; ++i) tokens.emplace_back(number * 1'000 + i);
    return tokens;
  }
  static std::vector<kv::BlockHash> keys(std::uint32_t number) {
    return kv::hash_blocks(kv::root_hash({.model = "model", .lora = "", .cache_salt = ""}), prompt(number),
                           kModelBlockSize);
  }
  std::optional<Refusal> store(std::uint32_t number, WorkerId worker = kWorker) {
    kv::BlockStored event;
    event.block_size = kModelBlockSize;
    event.tokens = prompt(number);
    for (std::uint32_t i = 0; i < kBlocks; ++i) event.hashes.emplace_back(number * kBlocks + i);
    return index_.apply(worker, event);
  }
  [[nodiscard]] std::uint32_t depth(std::uint32_t number, WorkerId worker = kWorker) const {
    std::vector<std::uint32_t> depths(worker.value() + 1);
    index_.match(keys(number), depths);
    return depths[worker.value()];
  }
  // Prompts that are never looked up, more than fit.
  void fill(std::uint32_t first, std::uint32_t prompts) {
    for (std::uint32_t i = 0; i < prompts; ++i) EXPECT_FALSE(store(first + i));
    EXPECT_GT(index_.evictions(), 0U);
  }

  KvIndex index_{{.model = "model", .block_size = kModelBlockSize, .max_bytes = 900'000}};
};

TEST_F(Budget, WhatIsLookedUpStaysAndWhatNobodyAsksForGoes) {
  EXPECT_FALSE(store(0));
  EXPECT_FALSE(store(1));
  for (std::uint32_t number = 2; number < 12'000; ++number) {
    EXPECT_FALSE(store(number));
    if (number % 50 == 0) {
      ASSERT_EQ(depth(0), kBlocks) << "after " << number;
    }
  }
  EXPECT_GT(index_.evictions(), 1U);
  EXPECT_EQ(depth(1), 0U);
}

TEST_F(Budget, APrefixLosesItsEndBeforeItsHead) {
  fill(0, 12'000);
  std::uint32_t shortened = 0;
  std::size_t found = 0;
  for (std::uint32_t number = 0; number < 12'000; ++number) {
    const std::uint32_t known = depth(number);
    found += known;
    if (known > 0 && known < kBlocks) ++shortened;
  }
  EXPECT_GT(shortened, 0U);
  EXPECT_EQ(found, index_.keys()) << "the end of a prompt outlived its head";
}

TEST_F(Budget, LaterEventsOfEvictedBlocksDoNoHarm) {
  fill(0, 12'000);
  ASSERT_EQ(depth(0), 0U);
  const auto unknown = index_.counters(kWorker).unknown_removals;
  kv::BlockRemoved removal;
  removal.hashes.emplace_back(0U);
  EXPECT_FALSE(index_.apply(kWorker, removal));
  EXPECT_EQ(index_.counters(kWorker).unknown_removals, unknown + 1);
  kv::BlockStored behind;
  behind.block_size = kModelBlockSize;
  behind.parent = kv::ExternalHash(kBlocks - 1);
  behind.tokens = prompt(5'000, 1);
  behind.hashes.emplace_back(999'999U);
  EXPECT_EQ(index_.apply(kWorker, behind), Refusal::kUnknownParent);
}

TEST_F(Budget, BlocksThatSeveralWorkersStoreOutliveThoseOfOne) {
  EXPECT_FALSE(store(0));
  EXPECT_FALSE(store(0, WorkerId(1)));
  EXPECT_FALSE(store(1));
  for (std::uint32_t number = 2; index_.evictions() == 0; ++number) EXPECT_FALSE(store(number));
  EXPECT_EQ(depth(1), 0U);
  EXPECT_EQ(depth(0), kBlocks);
}

TEST_F(Budget, TooSmallABudgetRefusesAndStaysWithin) {
  KvIndex tiny({.model = "model", .block_size = kModelBlockSize, .max_bytes = 4'096});
  kv::BlockStored event;
  event.block_size = kModelBlockSize;
  event.tokens = prompt(0);
  for (std::uint32_t i = 0; i < kBlocks; ++i) event.hashes.emplace_back(i);
  EXPECT_EQ(tiny.apply(kWorker, event), Refusal::kCapacity);
  EXPECT_LE(tiny.bytes(), 4'096U);
}

}  // namespace
}  // namespace kvist::kv_index::kv_index_eviction_test
