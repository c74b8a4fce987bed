#include "kvist/routing/ghost_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <unordered_map>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::routing {
namespace {

std::vector<kv::BlockHash> file_of(std::uint64_t number, std::size_t blocks) {
  std::vector<kv::BlockHash> file;
  for (std::size_t i = 0; i < blocks; ++i) file.emplace_back(mix_seed({number, i}));
  return file;
}

/// A least-recently-used cache of whole files of the same length.
class FileCache {
 public:
  explicit FileCache(std::size_t files) : files_(files) {}
  /// Returns whether it was there.
  bool use(std::uint64_t file) {
    const auto found = places_.find(file);
    const bool hit = found != places_.end();
    if (hit) by_use_.erase(found->second);
    by_use_.push_front(file);
    places_[file] = by_use_.begin();
    if (by_use_.size() > files_) {
      places_.erase(by_use_.back());
      by_use_.pop_back();
    }
    return hit;
  }

 private:
  std::size_t files_;
  std::list<std::uint64_t> by_use_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
};

constexpr std::size_t kBlocks = 64;
constexpr WorkerId kWorker{0};

/// Requests of files that are asked for with equal probability; `passing` of a hundred are for one that nobody asks for
/// again.
struct Traffic {
  std::size_t files = 0, in_cache = 0;
  int passing = 0;
};
struct Learned {
  double recomputed = 0;
  double found = 0, larger_found = 0, put_in = 0;  // requests
};
Learned learn(const Traffic& traffic, std::uint64_t seed) {
  GhostCache ghosts(1);
  FileCache cache(traffic.in_cache);
  FileCache larger(traffic.in_cache + traffic.in_cache / 4);
  RandomStream random(seed);
  Learned learned;
  std::uint64_t passing = 1'000'000;
  double sum = 0;
  constexpr int kRequests = 12'000;
  for (int i = 0; i < kRequests; ++i) {
    const bool passes = random.uniform_int(0, 99) < traffic.passing;
    const std::uint64_t file =
        passes ? ++passing : static_cast<std::uint64_t>(random.uniform_int(1, static_cast<int>(traffic.files)));
    const bool hit = cache.use(file);
    const bool larger_hit = larger.use(file);
    const std::size_t there = hit ? kBlocks : 0;
    ghosts.on_routed(kWorker, file_of(file, kBlocks), {.anywhere = there, .there = there}, traffic.in_cache * kBlocks);
    if (i < kRequests / 3) continue;
    (hit ? learned.found : learned.put_in) += 1;
    learned.larger_found += larger_hit ? 1 : 0;
    sum += ghosts.recomputed();
  }
  learned.recomputed = sum / (kRequests - kRequests / 3);
  return learned;
}

TEST(GhostCache, NothingIsComputedAgainWhereAllFilesHaveRoom) {
  EXPECT_EQ(learn({.files = 80, .in_cache = 100}, 1).recomputed, 0);
}

TEST(GhostCache, NothingIsComputedAgainForWhatNobodyAsksForAgain) {
  EXPECT_EQ(learn({.files = 2, .in_cache = 100, .passing = 50}, 2).recomputed, 0);
}

double larger_caches_find(const Learned& learned) {
  static_assert(GhostCache::kMore == 0.25);
  return (learned.larger_found - learned.found) / learned.put_in / GhostCache::kMore;
}

TEST(GhostCache, WhatIsComputedAgainIsWhatALargerCacheFinds) {
  for (const std::size_t in_cache : {100, 200}) {
    for (const int passing : {0, 30}) {
      const Learned learned = learn({.files = 400, .in_cache = in_cache, .passing = passing}, in_cache);
      const double exact = larger_caches_find(learned);
      EXPECT_NEAR(learned.recomputed, exact, 0.1 * exact) << in_cache << " of 400 files, passing " << passing;
    }
  }
}

// A cache for nearly all puts less in, so that the age at which it evicts rises by more than was added.
TEST(GhostCache, OfCachesThatWouldHoldNearlyAllTooLittleIsMissed) {
  const Learned learned = learn({.files = 400, .in_cache = 300}, 5);
  EXPECT_LT(learned.recomputed, larger_caches_find(learned));
  EXPECT_GT(learned.recomputed, 0.6 * larger_caches_find(learned));
}

// With files of equal probability each block in the cache finds as much as any other: C / I x dH/dC is H / I.
TEST(GhostCache, FilesOfEqualProbabilityCostWhatTheCacheFindsPerBlockThatIsPutIn) {
  const Learned learned = learn({.files = 400, .in_cache = 100}, 7);
  const double exact = learned.found / learned.put_in;
  EXPECT_NEAR(learned.recomputed, exact, 0.15 * exact);
}

// Half of what is put in passes, so an evicted block is half as likely to be missed.
TEST(GhostCache, WhatPassesMakesEvictionsCheaper) {
  const double without = learn({.files = 400, .in_cache = 200}, 3).recomputed;
  const double with = learn({.files = 400, .in_cache = 200, .passing = 50}, 3).recomputed;
  EXPECT_LT(with, 0.75 * without);
  EXPECT_GT(with, 0);
}

class Ghosts : public testing::Test {
 protected:
  static constexpr std::uint64_t kFleetBlocks = 10 * kBlocks;
  void route(std::uint64_t file, std::size_t cached, WorkerId worker = kWorker, bool exact = true) {
    ghosts_.on_routed(worker, file_of(file, kBlocks), {.anywhere = cached, .there = cached, .exact = exact},
                      kFleetBlocks);
  }
  void fill() {
    for (std::uint64_t file = 1; file <= 10; ++file) route(file, 0);
  }
  GhostCache ghosts_{2};
};

TEST_F(Ghosts, WhatWasEvictedLongAgoWouldNotBeInALargerCacheEither) {
  fill();
  for (std::uint64_t file = 101; file <= 103; ++file) route(file, 0);
  route(5, 0);  // eight files were put in since
  EXPECT_GT(ghosts_.recomputed(), 0);
  GhostCache later(2);
  for (std::uint64_t file = 1; file <= 20; ++file) later.on_routed(kWorker, file_of(file, kBlocks), {}, kFleetBlocks);
  later.on_routed(kWorker, file_of(1, kBlocks), {}, kFleetBlocks);
  EXPECT_EQ(later.recomputed(), 0);
}

TEST_F(Ghosts, WhatIsStillCachedSomewhereIsNotMissed) {
  fill();
  for (std::uint64_t file = 1; file <= 10; ++file)
    ghosts_.on_routed(WorkerId(1), file_of(file, kBlocks), {.anywhere = kBlocks, .there = 0}, kFleetBlocks);
  EXPECT_EQ(ghosts_.recomputed(), 0);
}

TEST_F(Ghosts, WhatAWorkerHeldWhenItsCacheWasEmptiedWasNotEvicted) {
  fill();
  ghosts_.clear(kWorker);
  for (std::uint64_t file = 1; file <= 10; ++file) route(file, 0, WorkerId(1));
  EXPECT_EQ(ghosts_.recomputed(), 0);
  for (std::uint64_t file = 1; file <= 10; ++file) route(file, 0, WorkerId(1));
  EXPECT_GT(ghosts_.recomputed(), 0) << "there it was evicted";
}

TEST_F(Ghosts, WhatWasNeverComputedWasNotEvicted) {
  for (std::uint64_t file = 1; file <= 10; ++file) {
    route(file, 0);
    ghosts_.take_back(kWorker, file_of(file, kBlocks));
    route(file, 0);
  }
  EXPECT_EQ(ghosts_.recomputed(), 0);
  for (std::uint64_t file = 1; file <= 10; ++file) route(file, 0);
  EXPECT_GT(ghosts_.recomputed(), 0) << "the second time they were";
  const double learned = ghosts_.recomputed();
  ghosts_.take_back(WorkerId(1), file_of(10, kBlocks));
  route(10, 0);
  EXPECT_GT(ghosts_.recomputed(), learned) << "another worker's attempt";
}

TEST_F(Ghosts, WithoutEventsNobodyKnowsWhatWasEvicted) {
  fill();
  for (std::uint64_t file = 1; file <= 10; ++file) route(file, 0, kWorker, false);
  EXPECT_EQ(ghosts_.recomputed(), 0);
}

// Two of ten workers leave: what the others have is evicted at the same share of their memory.
TEST_F(Ghosts, AFleetOfAnotherSizeEvictsAtTheSameShareOfItsMemory) {
  for (int round = 0; round < 3; ++round)
    for (std::uint64_t file = 1; file <= 8; ++file) route(file, 0);  // evicted at an age of eight files at most
  const double before = ghosts_.recomputed();
  EXPECT_GT(before, 0);
  ghosts_.on_routed(kWorker, file_of(100, kBlocks), {}, kFleetBlocks * 8 / 10);
  EXPECT_NEAR(ghosts_.recomputed(), before, 0.1 * before);
  GhostCache unknown(1);
  unknown.on_routed(kWorker, file_of(1, kBlocks), {}, 0);
  unknown.on_routed(kWorker, file_of(1, kBlocks), {}, kFleetBlocks);
  EXPECT_EQ(unknown.recomputed(), 0);
}

TEST_F(Ghosts, OfAFleetOfUnknownMemoryNothingIsKept) {
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t file = 1; file <= 10; ++file) ghosts_.on_routed(kWorker, file_of(file, kBlocks), {}, 0);
  EXPECT_EQ(ghosts_.recomputed(), 0);
  EXPECT_EQ(ghosts_.size(), 0U);
}

TEST_F(Ghosts, AnswersAndOthersPromptsMakeWhatWasUsedOlder) {
  fill();
  ghosts_.on_answer(2 * kFleetBlocks, true);
  route(1, 0);
  EXPECT_EQ(ghosts_.recomputed(), 0);
  ghosts_.on_peer_routed(kWorker, file_of(200, kBlocks), 2 * kFleetBlocks);
  route(1, 0);
  EXPECT_EQ(ghosts_.recomputed(), 0);
}

TEST(GhostCacheMemory, IsBoundedWhateverTheFleetAndTheHashesAre) {
  GhostCache large(1);
  for (std::uint64_t file = 1; file <= 3'000; ++file) large.on_routed(kWorker, file_of(file, 1'000), {}, 2'000'000);
  EXPECT_LE(large.size(), GhostCache::kMostSampled * 3 / 2);
  EXPECT_GT(large.size(), GhostCache::kMostSampled / 4);

  GhostCache hostile(1);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    std::vector<kv::BlockHash> chosen;
    for (std::uint64_t block = 0; block < 1'000; ++block) chosen.emplace_back((i * 1'000 + block) << 32U);
    hostile.on_routed(kWorker, chosen, {}, 2'000'000);
  }
  EXPECT_LE(hostile.size(), 2 * GhostCache::kMostSampled);

  GhostCache keyed(1, 0x1234'5678'9abc'def1);
  std::vector<kv::BlockHash> alike;  // to whoever takes the key for 0
  for (std::uint64_t block = 1; block <= 1'000; ++block) alike.emplace_back(block << 32U);
  keyed.on_routed(kWorker, alike, {}, 2'000'000);
  EXPECT_EQ(keyed.size(), 0U);
}

}  // namespace
}  // namespace kvist::routing
