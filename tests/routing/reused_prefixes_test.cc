#include "kvist/routing/reused_prefixes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace kvist::routing::reused_prefixes_test {
namespace {

constexpr WorkerId kHome{0};
constexpr WorkerId kOther{1};

/// A prompt of so many blocks that shares its first `shared` with every other prompt.
BlockKeys prompt(std::uint64_t number, std::size_t blocks, std::size_t shared = 0) {
  std::vector<kv::BlockHash> hashes;
  for (std::size_t i = 0; i < blocks; ++i) hashes.emplace_back((i < shared ? 1 : number) << 32 | i);
  return std::make_shared<const std::vector<kv::BlockHash>>(std::move(hashes));
}

class ReusedPrefixesTest : public testing::Test {
 protected:
  /// The blocks of reused prefixes and of the prompt that are beyond `kv_blocks`.
  std::uint64_t displaces(const BlockKeys& prompt, WorkerId worker = kHome, std::uint64_t kv_blocks = 100) {
    prefixes_.expire(now_);
    std::vector<std::uint32_t> depths(2);
    prefixes_.match(view(prompt), depths);
    const std::uint64_t all = prefixes_.blocks(worker) + view(prompt).size() - depths[worker.value()];
    return all - std::min(all, kv_blocks);
  }

  ReusedPrefixes prefixes_{2};
  TimePoint now_{std::chrono::seconds(1)};
};

TEST_F(ReusedPrefixesTest, NothingIsDisplacedWhileAllFits) {
  prefixes_.add(kHome, prompt(2, 60), 60, now_);
  EXPECT_EQ(displaces(prompt(3, 40)), 0U);
  EXPECT_EQ(displaces(prompt(3, 41)), 1U);
  EXPECT_EQ(displaces(prompt(3, 41), kOther), 0U);
}

TEST_F(ReusedPrefixesTest, APromptCountsAsFarAsItWasReused) {
  prefixes_.add(kHome, prompt(2, 90), 30, now_);
  EXPECT_EQ(displaces(prompt(3, 75)), 5U);
  prefixes_.add(kHome, prompt(4, 90), 0, now_);
  EXPECT_EQ(displaces(prompt(3, 75)), 5U) << "nothing came back to that one";
}

TEST_F(ReusedPrefixesTest, WhatIsThereAlreadyTakesNoRoom) {
  const BlockKeys growing = prompt(2, 80);
  prefixes_.add(kHome, growing, 60, now_);
  prefixes_.add(kHome, growing, 70, now_);
  EXPECT_EQ(displaces(growing), 0U) << "70 are there, 10 come";
  prefixes_.add(kHome, prompt(3, 50), 40, now_);
  EXPECT_EQ(displaces(growing), 20U);
}

TEST_F(ReusedPrefixesTest, SharedPrefixesAreCountedOnce) {
  prefixes_.add(kHome, prompt(2, 60, 50), 60, now_);
  prefixes_.add(kHome, prompt(3, 60, 50), 60, now_);  // 70 blocks together
  EXPECT_EQ(displaces(prompt(4, 85, 50)), 5U);
}

TEST_F(ReusedPrefixesTest, WhatWasNotUsedForHalfAMinuteIsForgotten) {
  prefixes_.add(kHome, prompt(2, 90), 90, now_);
  now_ += std::chrono::seconds(20);
  prefixes_.add(kHome, prompt(2, 90), 80, now_);
  now_ += std::chrono::seconds(10);
  EXPECT_EQ(displaces(prompt(3, 50)), 30U);
  now_ += std::chrono::seconds(20);
  EXPECT_EQ(displaces(prompt(3, 50)), 0U);
}

TEST_F(ReusedPrefixesTest, AnEmptyCacheHoldsNone) {
  prefixes_.add(kHome, prompt(2, 90), 90, now_);
  prefixes_.add(kOther, prompt(2, 90), 80, now_);
  prefixes_.add(kHome, prompt(3, 50), 50, now_);
  prefixes_.clear(kHome);
  EXPECT_EQ(prefixes_.blocks(kHome), 0U);
  EXPECT_EQ(prefixes_.blocks(kOther), 80U);
  now_ += ReusedPrefixes::kKept;
  prefixes_.expire(now_);
  EXPECT_EQ(prefixes_.blocks(kOther), 0U);
}

TEST_F(ReusedPrefixesTest, AUseThatDidNotHappenIsTakenBackOnce) {
  const std::uint64_t first = prefixes_.add(kHome, prompt(2, 90), 90, now_);
  const std::uint64_t second = prefixes_.add(kOther, prompt(2, 90), 80, now_);
  const std::uint64_t third = prefixes_.add(kHome, prompt(3, 50), 50, now_);
  EXPECT_EQ(prefixes_.add(kHome, prompt(4, 50), 0, now_), 0U) << "nothing came back to it";
  prefixes_.take_back(0);
  prefixes_.take_back(third);
  prefixes_.take_back(third);
  EXPECT_EQ(prefixes_.blocks(kHome), 90U);
  EXPECT_EQ(prefixes_.blocks(kOther), 80U);
  prefixes_.clear(kHome);
  prefixes_.take_back(first);
  EXPECT_EQ(prefixes_.blocks(kHome), 0U);
  prefixes_.take_back(second);
  EXPECT_EQ(prefixes_.blocks(kOther), 0U);
  now_ += ReusedPrefixes::kKept;
  prefixes_.expire(now_);
  prefixes_.take_back(second);
  EXPECT_EQ(prefixes_.blocks(kOther), 0U);
}

TEST_F(ReusedPrefixesTest, UsesAreBounded) {
  prefixes_.add(kHome, prompt(2, 90), 90, now_);
  const BlockKeys other = prompt(3, 10);
  for (std::size_t i = 0; i < ReusedPrefixes::kMostUses; ++i) prefixes_.add(kHome, other, 10, now_);
  EXPECT_EQ(prefixes_.blocks(kHome), 10U) << "the oldest use is given up";
}

TEST_F(ReusedPrefixesTest, HashesAreBounded) {
  constexpr std::size_t kBlocks = ReusedPrefixes::kMostBlocks / 4;
  for (std::uint64_t i = 2; i < 8; ++i) prefixes_.add(kHome, prompt(i, kBlocks), 1, now_);
  EXPECT_EQ(prefixes_.blocks(kHome), 4U);
  prefixes_.add(kHome, prompt(9, ReusedPrefixes::kMostBlocks + 1), 1, now_);
  EXPECT_EQ(prefixes_.blocks(kHome), 4U) << "a prompt that alone is too large is left out";
}

}  // namespace
}  // namespace kvist::routing::reused_prefixes_test
