#include "kvist/routing/predicted_index.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "kvist/base/random.h"

namespace kvist::routing::predicted_index_test {
namespace {

constexpr std::uint64_t kSeed = 20261121;

TimePoint at_s(std::int64_t seconds) {
  return TimePoint(std::chrono::seconds(seconds));
}

/// A prompt of `length` blocks that shares its first `shared` with all other prompts of the same family.
BlockKeys prompt(std::uint64_t family, std::uint64_t member, std::uint64_t shared, std::uint64_t length) {
  auto keys = std::make_shared<std::vector<kv::BlockHash>>();
  std::uint64_t name = family;
  for (std::uint64_t i = 0; i < length; ++i) {
    name = mix_seed({name, i < shared ? 0 : member + 1});
    keys->emplace_back(name);
  }
  return keys;
}

std::vector<std::uint32_t> depths(const PredictedIndex& index, const BlockKeys& prompt, std::size_t workers) {
  std::vector<std::uint32_t> result(workers);
  index.match(view(prompt), result);
  return result;
}

TEST(PredictedIndex, WhatWasNotComputedIsTakenBack) {
  PredictedIndex index({.ttl = std::chrono::seconds(10)}, 1);
  const std::uint64_t first = index.insert(WorkerId(0), prompt(1, 1, 4, 6), 0, at_s(0));
  const std::uint64_t second = index.insert(WorkerId(0), prompt(1, 2, 4, 8), 0, at_s(1));
  index.insert(WorkerId(0), prompt(1, 3, 4, 5), 0, at_s(2));
  index.take_back(WorkerId(0), second);
  index.take_back(WorkerId(0), second);
  EXPECT_EQ(depths(index, prompt(1, 2, 4, 8), 1), (std::vector<std::uint32_t>{4}));
  EXPECT_EQ(index.prompts(WorkerId(0)), 2U);
  EXPECT_EQ(index.blocks(WorkerId(0)), 7U);
  index.expire(at_s(11));
  EXPECT_EQ(index.prompts(WorkerId(0)), 1U) << "its time passes without it";
  index.take_back(WorkerId(0), first);
  index.expire(at_s(20));
  EXPECT_EQ(index.prompts(WorkerId(0)), 0U);
}

TEST(PredictedIndex, APromptIsThereAtOnceAndGoesAfterItsTime) {
  PredictedIndex index({.ttl = std::chrono::seconds(10)}, 2);
  index.insert(WorkerId(1), prompt(1, 1, 4, 6), 0, at_s(0));
  EXPECT_EQ(depths(index, prompt(1, 2, 4, 6), 2), (std::vector<std::uint32_t>{0, 4}));
  EXPECT_EQ(index.blocks(WorkerId(1)), 6U);
  index.expire(at_s(9));
  EXPECT_EQ(index.prompts(WorkerId(1)), 1U);
  index.expire(at_s(10));
  EXPECT_EQ(depths(index, prompt(1, 1, 4, 6), 2), (std::vector<std::uint32_t>{0, 0}));
  EXPECT_EQ(index.blocks(WorkerId(1)), 0U);
}

TEST(PredictedIndex, UseRenewsAPrefix) {
  PredictedIndex index({.ttl = std::chrono::seconds(10)}, 1);
  index.insert(WorkerId(0), prompt(1, 1, 4, 6), 0, at_s(0));
  index.insert(WorkerId(0), prompt(1, 2, 4, 6), 0, at_s(8));
  index.expire(at_s(12));
  EXPECT_EQ(depths(index, prompt(1, 1, 4, 6), 1).front(), 4U);
}

TEST(PredictedIndex, TheLeastRecentGoesFirstWhenTheWorkerIsFull) {
  PredictedIndex index({.ttl = std::chrono::hours(1)}, 2);
  for (std::uint64_t family = 1; family <= 4; ++family) {
    index.insert(WorkerId(0), prompt(family, 0, 0, 10), 25, at_s(0));
    index.insert(WorkerId(1), prompt(family, 0, 0, 10), 0, at_s(0));
  }
  EXPECT_EQ(index.blocks(WorkerId(0)), 20U);
  EXPECT_EQ(depths(index, prompt(2, 0, 0, 10), 2), (std::vector<std::uint32_t>{0, 10}));
  EXPECT_EQ(depths(index, prompt(3, 0, 0, 10), 2), (std::vector<std::uint32_t>{10, 10}));
}

TEST(PredictedIndex, BytesAreBounded) {
  PredictedIndex index({.ttl = std::chrono::hours(1), .max_bytes = 20'000}, 2);
  for (std::uint64_t family = 0; family < 100; ++family) {
    index.insert(WorkerId(0), prompt(family, 0, 0, 100), 0, at_s(0));
  }
  EXPECT_EQ(index.prompts(WorkerId(0)), 10'000U / (800 + 512));
}

TEST(PredictedIndex, AClearedWorkerIsEmptyAndTheOthersAreNot) {
  PredictedIndex index({.ttl = std::chrono::seconds(5)}, 2);
  for (std::uint32_t w = 0; w < 2; ++w) index.insert(WorkerId(w), prompt(1, 0, 0, 3), 0, at_s(0));
  index.clear(WorkerId(0));
  index.insert(WorkerId(0), prompt(2, 0, 0, 3), 0, at_s(4));
  EXPECT_EQ(depths(index, prompt(1, 0, 0, 3), 2), (std::vector<std::uint32_t>{0, 3}));
  index.expire(at_s(6));  // cleared prompts are not removed a second time
  EXPECT_EQ(depths(index, prompt(2, 0, 0, 3), 2), (std::vector<std::uint32_t>{3, 0}));
}

TEST(PredictedIndex, MeansTheSameAsAListOfPrompts) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomStream random(kSeed);
  const auto below = [&](std::int64_t bound) { return static_cast<std::uint64_t>(random.uniform_int(0, bound - 1)); };
  constexpr std::uint32_t kWorkers = 3;
  constexpr std::uint32_t kMost = 40;
  const Duration ttl = std::chrono::seconds(20);
  PredictedIndex index({.ttl = ttl}, kWorkers);
  struct Entry {
    BlockKeys prompt;
    TimePoint at;
  };
  std::vector<std::deque<Entry>> model(kWorkers);
  const auto distinct = [](const std::deque<Entry>& entries) {
    std::set<kv::BlockHash> blocks;
    for (const Entry& entry : entries) blocks.insert(view(entry.prompt).begin(), view(entry.prompt).end());
    return blocks;
  };
  for (std::int64_t second = 0; second < 600; ++second) {
    const auto worker = static_cast<std::uint32_t>(below(kWorkers));
    const BlockKeys asked = prompt(below(3), below(4), below(6), 1 + below(12));
    index.expire(at_s(second));
    for (auto& entries : model) {
      while (!entries.empty() && entries.front().at + ttl <= at_s(second)) entries.pop_front();
    }
    if (below(50) == 0) {
      index.clear(WorkerId(worker));
      model[worker].clear();
    } else {
      index.insert(WorkerId(worker), asked, kMost, at_s(second));
      model[worker].push_back({asked, at_s(second)});
      while (distinct(model[worker]).size() > kMost) model[worker].pop_front();
    }
    const std::vector<std::uint32_t> found = depths(index, asked, kWorkers);
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      const std::set<kv::BlockHash> blocks = distinct(model[w]);
      EXPECT_EQ(index.blocks(WorkerId(w)), blocks.size());
      std::uint32_t depth = 0;
      while (depth < view(asked).size() && blocks.contains(view(asked)[depth])) ++depth;
      EXPECT_EQ(found[w], depth) << "second " << second << ", worker " << w;
    }
  }
}

}  // namespace
}  // namespace kvist::routing::predicted_index_test
