// Blocks in host memory, on disk and elsewhere, and blocks that events name without their tokens.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/kv_index/kv_index.h"

namespace kvist::kv_index::kv_index_tiers_test {
namespace {

using kv::Medium;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kBlockSize = 4;
constexpr std::array kMedia = {Medium::kDevice, Medium::kHost, Medium::kDisk, Medium::kRemote};

// Blocks of a chain: block i has tokens that are all i.
std::vector<TokenId> tokens(std::uint32_t from, std::uint32_t to) {
  std::vector<TokenId> result;
  for (std::uint32_t i = from; i < to; ++i) result.insert(result.end(), kBlockSize, TokenId(i));
  return result;
}

std::vector<kv::BlockHash> keys_of(std::uint32_t blocks) {
  return kv::hash_blocks(kv::root_hash({.model = "m", .lora = "", .cache_salt = ""}), tokens(0, blocks), kBlockSize);
}

/// Blocks from .. to - 1 of the chain, called `base` + i by the worker.
kv::BlockStored stored(std::uint32_t from, std::uint32_t to, std::uint64_t base, Medium medium = Medium::kDevice) {
  kv::BlockStored event;
  for (std::uint32_t i = from; i < to; ++i) event.hashes.emplace_back(base + i);
  if (from > 0) event.parent = kv::ExternalHash(base + from - 1);
  event.tokens = tokens(from, to);
  event.block_size = kBlockSize;
  event.medium = medium;
  return event;
}

/// As vLLM's offloading connector reports them.
kv::BlockStored named(std::uint32_t from, std::uint32_t to, std::uint64_t base, Medium medium) {
  kv::BlockStored event = stored(from, to, base, medium);
  event.parent.reset();
  event.tokens.clear();
  event.block_size = 0;
  return event;
}

kv::BlockRemoved removed(std::uint32_t from, std::uint32_t to, std::uint64_t base, Medium medium = Medium::kDevice) {
  kv::BlockRemoved event;
  for (std::uint32_t i = from; i < to; ++i) event.hashes.emplace_back(base + i);
  event.medium = medium;
  return event;
}

class KvIndexTiersTest : public ::testing::Test {
 protected:
  std::vector<WorkerMatch> match(std::uint32_t blocks) {
    const auto found = index_.match(keys_of(blocks));
    return {found.begin(), found.end()};
  }
  std::vector<LowerTierMatch> lower() {
    const auto found = index_.lower_tiers();
    return {found.begin(), found.end()};
  }

  KvIndex index_{{.model = "m", .block_size = kBlockSize, .workers = 3}};
  WorkerId a_{0};
  WorkerId b_{2};
};

TEST_F(KvIndexTiersTest, ABlockIsHeldInTheBestMediumThatHasIt) {
  EXPECT_FALSE(index_.apply(a_, stored(0, 4, 100)));
  EXPECT_FALSE(index_.apply(a_, named(0, 4, 100, Medium::kHost)));
  EXPECT_THAT(match(6), ElementsAre(WorkerMatch{a_, 4}));
  EXPECT_THAT(lower(), IsEmpty()) << "all of it is in device memory too";
  EXPECT_FALSE(index_.apply(a_, removed(2, 4, 100)));
  EXPECT_THAT(match(6), ElementsAre(WorkerMatch{a_, 4}));
  EXPECT_THAT(lower(), ElementsAre(LowerTierMatch{a_, {2, 0, 0}}));
  EXPECT_FALSE(index_.apply(a_, removed(0, 2, 100)));
  EXPECT_THAT(match(6), ElementsAre(WorkerMatch{a_, 4}));
  EXPECT_THAT(lower(), ElementsAre(LowerTierMatch{a_, {4, 0, 0}}));
  EXPECT_EQ(index_.worker_blocks(a_), 0U);
  EXPECT_EQ(index_.worker_blocks(a_, Medium::kHost), 4U);
  EXPECT_FALSE(index_.apply(a_, removed(1, 2, 100, Medium::kHost)));
  EXPECT_THAT(match(6), ElementsAre(WorkerMatch{a_, 1})) << "what comes behind a gap is of no use";
  EXPECT_EQ(index_.counters(a_).removed_blocks, 5U);
  EXPECT_EQ(index_.counters(a_).unknown_removals, 0U);
}

TEST_F(KvIndexTiersTest, ARemovalInOneMediumTakesNothingFromAnother) {
  EXPECT_FALSE(index_.apply(a_, stored(0, 3, 100)));
  EXPECT_FALSE(index_.apply(a_, removed(0, 3, 100, Medium::kDisk)));
  EXPECT_EQ(index_.counters(a_).unknown_removals, 3U);
  EXPECT_THAT(match(3), ElementsAre(WorkerMatch{a_, 3}));
  EXPECT_FALSE(index_.apply(a_, stored(0, 3, 100, Medium::kDisk)));
  EXPECT_FALSE(index_.apply(a_, stored(0, 3, 100, Medium::kDisk)));
  EXPECT_FALSE(index_.apply(a_, removed(0, 3, 100)));
  EXPECT_FALSE(index_.apply(a_, removed(0, 3, 100, Medium::kDisk)));
  EXPECT_THAT(match(3), ElementsAre(WorkerMatch{a_, 3})) << "the second copy on disk";
  EXPECT_THAT(lower(), ElementsAre(LowerTierMatch{a_, {0, 3, 0}}));
  EXPECT_FALSE(index_.apply(a_, removed(0, 3, 100, Medium::kDisk)));
  EXPECT_THAT(match(3), IsEmpty());
  EXPECT_EQ(index_.keys(), 0U);
}

TEST_F(KvIndexTiersTest, AParentIsFoundInWhicheverMediumItIs) {
  EXPECT_FALSE(index_.apply(a_, stored(0, 2, 100)));
  EXPECT_FALSE(index_.apply(a_, stored(2, 4, 100, Medium::kHost))) << "behind one in device memory";
  EXPECT_FALSE(index_.apply(a_, stored(4, 5, 100, Medium::kDisk))) << "behind one in host memory";
  EXPECT_FALSE(index_.apply(a_, stored(5, 6, 100))) << "and in device memory again";
  EXPECT_THAT(match(6), ElementsAre(WorkerMatch{a_, 6}));
  EXPECT_THAT(lower(), ElementsAre(LowerTierMatch{a_, {2, 1, 0}}));
  EXPECT_TRUE(index_.knows(a_, kv::ExternalHash(104)));
  EXPECT_EQ(index_.apply(b_, stored(2, 4, 100, Medium::kHost)), Refusal::kUnknownParent) << "names are a worker's own";
}

TEST_F(KvIndexTiersTest, WorkersAreToldApartInEachMedium) {
  EXPECT_FALSE(index_.apply(a_, stored(0, 2, 100)));
  EXPECT_FALSE(index_.apply(b_, stored(0, 4, 500, Medium::kRemote)));
  EXPECT_FALSE(index_.apply(b_, stored(0, 1, 500)));
  EXPECT_FALSE(index_.apply(WorkerId(1), stored(0, 1, 900, Medium::kHost)));
  EXPECT_THAT(match(5), ElementsAre(WorkerMatch{a_, 2}, WorkerMatch{WorkerId(1), 1}, WorkerMatch{b_, 4}));
  EXPECT_THAT(lower(), ElementsAre(LowerTierMatch{WorkerId(1), {1, 0, 0}}, LowerTierMatch{b_, {0, 0, 3}}));
  EXPECT_FALSE(index_.apply(b_, kv::AllBlocksCleared{}));
  EXPECT_THAT(match(5), ElementsAre(WorkerMatch{a_, 2}, WorkerMatch{WorkerId(1), 1})) << "in all media";
  index_.forget(WorkerId(1));
  EXPECT_THAT(match(5), ElementsAre(WorkerMatch{a_, 2}));
}

TEST_F(KvIndexTiersTest, BlocksWithoutTokensAreThoseOfTheirNames) {
  EXPECT_FALSE(index_.apply(a_, stored(0, 3, 100)));
  EXPECT_EQ(index_.apply(a_, named(1, 5, 100, Medium::kHost)), Refusal::kUnknownBlock);
  EXPECT_EQ(index_.worker_blocks(a_, Medium::kHost), 2U) << "those that are known are taken";
  EXPECT_EQ(index_.counters(a_).refused[static_cast<std::size_t>(Refusal::kUnknownBlock)], 1U);
  EXPECT_FALSE(index_.apply(a_, named(0, 3, 100, Medium::kDevice))) << "a second copy in device memory";
  EXPECT_FALSE(index_.apply(a_, removed(0, 3, 100)));
  EXPECT_THAT(match(3), ElementsAre(WorkerMatch{a_, 3}));
  EXPECT_THAT(lower(), IsEmpty());
}

TEST_F(KvIndexTiersTest, OtherMediaOfWorkersBeyondTheConfiguredOnesAreRefused) {
  EXPECT_EQ(index_.apply(WorkerId(3), stored(0, 2, 1, Medium::kHost)), Refusal::kMedium);
  EXPECT_EQ(index_.apply(WorkerId(3), removed(0, 2, 1, Medium::kHost)), Refusal::kMedium);
  EXPECT_FALSE(index_.apply(WorkerId(3), stored(0, 2, 1)));
  kv::BlockStored other = stored(0, 1, 50, Medium::kHost);
  other.other_extra_keys = true;
  EXPECT_EQ(index_.apply(a_, other), Refusal::kExtraKeys);
  other = stored(0, 1, 50, Medium::kHost);
  other.block_size = 8;
  EXPECT_EQ(index_.apply(a_, other), Refusal::kBlockSize);
  other = stored(0, 2, 50, Medium::kHost);
  other.tokens.pop_back();
  EXPECT_EQ(index_.apply(a_, other), Refusal::kMalformed);
  other = stored(0, 1, 50, Medium::kHost);
  other.group = 1;
  EXPECT_EQ(index_.apply(a_, other), Refusal::kGroup);
  EXPECT_EQ(index_.worker_blocks(a_, Medium::kHost), 0U);
}

TEST_F(KvIndexTiersTest, StaysWithinItsBytes) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  KvIndex index({.model = "m", .block_size = kBlockSize, .max_bytes = kBytes, .workers = 3});
  for (std::uint32_t prompt = 0; prompt < 5'000; ++prompt) {
    kv::BlockStored event;
    event.medium = kMedia[prompt % kMedia.size()];
    event.block_size = kBlockSize;
    for (std::uint32_t i = 0; i < 8; ++i) event.hashes.emplace_back(prompt * 100ULL + i);
    event.tokens = tokens(prompt * 10, prompt * 10 + 8);
    (void)index.apply(a_, event);
    ASSERT_LE(index.bytes(), kBytes) << prompt;
  }
  EXPECT_GT(index.evictions(), 0U);
  EXPECT_GT(index.worker_blocks(a_, Medium::kDisk), 100U) << "the newest are kept, whatever their medium";
}

/// What the events say, as simply as it can be said: by worker, medium and name the copies.
class Model {
 public:
  using Copies = std::map<std::uint64_t, std::uint32_t>;
  Copies& copies(std::uint32_t worker, Medium medium) { return copies_[{worker, medium}]; }
  /// The best medium in which the worker holds block i of the chain; nothing if none does.
  std::optional<std::size_t> best(std::uint32_t worker, std::uint64_t name) {
    for (std::size_t medium = 0; medium < kMedia.size(); ++medium)
      if (const Copies& held = copies(worker, kMedia[medium]); held.contains(name) && held.at(name) > 0) return medium;
    return std::nullopt;
  }

 private:
  std::map<std::pair<std::uint32_t, Medium>, Copies> copies_;
};

TEST_F(KvIndexTiersTest, AnyEventsGiveWhatTheModelSays) {
  constexpr std::uint32_t kWorkers = 3;
  constexpr std::uint32_t kBlocks = 20;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomStream random(seed);
    const auto below = [&](std::uint32_t limit) {
      return static_cast<std::uint32_t>(random.uniform_int(0, limit - 1));
    };
    KvIndex index({.model = "m", .block_size = kBlockSize, .workers = kWorkers});
    auto reader = index.make_reader();
    Model model;
    for (int step = 0; step < 400; ++step) {
      const std::uint32_t worker = below(kWorkers);
      const std::uint64_t base = 1'000 * (worker + 1);
      const Medium medium = kMedia[below(kMedia.size())];
      const std::uint32_t from = below(kBlocks);
      const std::uint32_t to = from + 1 + below(kBlocks - from);
      std::vector<kv::KvEvent> events;
      const std::uint32_t kind = below(10);
      if (kind < 4) {
        events.emplace_back(stored(from, to, base, medium));
        const bool known = from == 0 || model.best(worker, base + from - 1).has_value();
        for (std::uint32_t i = from; known && i < to; ++i) ++model.copies(worker, medium)[base + i];
      } else if (kind < 6) {
        events.emplace_back(named(from, to, base, medium));
        for (std::uint32_t i = from; i < to; ++i)
          if (model.best(worker, base + i)) ++model.copies(worker, medium)[base + i];
      } else if (kind < 9) {
        events.emplace_back(removed(from, to, base, medium));
        for (std::uint32_t i = from; i < to; ++i)
          if (std::uint32_t& copies = model.copies(worker, medium)[base + i]; copies > 0) --copies;
      } else if (below(5) == 0) {
        events.emplace_back(kv::AllBlocksCleared{});
        for (const Medium each : kMedia) model.copies(worker, each).clear();
      }
      index.apply(WorkerId(worker), events);
      std::vector<WorkerMatch> expected;
      std::vector<LowerTierMatch> expected_lower;
      for (std::uint32_t w = 0; w < kWorkers; ++w) {
        WorkerMatch whole{.worker = WorkerId(w)};
        LowerTierMatch below_device{.worker = WorkerId(w)};
        for (std::uint32_t i = 0; i < kBlocks; ++i) {
          const auto best = model.best(w, 1'000 * (w + 1) + i);
          if (!best) break;
          ++whole.blocks;
          if (*best > 0) ++below_device.blocks[*best - 1];
        }
        if (whole.blocks > 0) expected.push_back(whole);
        if (below_device.blocks != std::array<std::uint32_t, kLowerTiers>{}) expected_lower.push_back(below_device);
      }
      const auto keys = keys_of(kBlocks);
      const auto check = [&](auto& by) {
        const auto found = by.match(keys);
        ASSERT_TRUE(std::ranges::equal(found, expected)) << "step " << step;
        ASSERT_TRUE(std::ranges::equal(by.lower_tiers(), expected_lower)) << "step " << step;
      };
      check(index);
      check(reader);
      if (HasFatalFailure()) return;
    }
  }
}

// Readers beside a writer see each block as it was at some moment: a prompt that never leaves host memory is always
// found whole, wherever else it comes and goes.
TEST_F(KvIndexTiersTest, ReadersFindWhatStays) {
  constexpr std::uint32_t kBlocks = 16;
  EXPECT_FALSE(index_.apply(a_, stored(0, kBlocks, 100, Medium::kHost)));
  auto reader = index_.make_reader();
  std::atomic<bool> over = false;
  std::atomic<std::uint64_t> wrong = 0;
  std::thread looking([&] {
    const auto keys = keys_of(kBlocks);
    while (!over.load(std::memory_order_relaxed)) {
      const auto found = reader.match(keys);
      const bool whole = !found.empty() && found.front() == WorkerMatch{a_, kBlocks};
      wrong.fetch_add(whole ? 0 : 1, std::memory_order_relaxed);
    }
  });
  for (int i = 0; i < 2'000; ++i) {
    EXPECT_FALSE(index_.apply(a_, stored(0, kBlocks, 100)));
    EXPECT_FALSE(index_.apply(b_, stored(0, kBlocks, 700, Medium::kDisk)));
    EXPECT_FALSE(index_.apply(a_, removed(0, kBlocks, 100)));
    EXPECT_FALSE(index_.apply(b_, removed(0, kBlocks, 700, Medium::kDisk)));
  }
  over.store(true);
  looking.join();
  EXPECT_EQ(wrong.load(), 0U);
}

}  // namespace
}  // namespace kvist::kv_index::kv_index_tiers_test
