#include "kvist/routing/reused_prefixes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace kvist::routing {
namespace {

constexpr WorkerId kHome{0};
constexpr WorkerId kOther{1};

/// A prompt of so many blocks that shares its first `shared` with every other prompt.
BlockKeys prompt(std::uint64_t number, std::size_t blocks, std::size_t shared = 0) {
  std::vector<kv::BlockHash> hashes;
  for (std::size_t i = 0; i < blocks; ++i) hashes.emplace_back(1'000 * (i < shared ? 1 : number) + i);
  return std::make_shared<const std::vector<kv::BlockHash>>(std::move(hashes));
}

class ReusedPrefixesTest : public testing::Test {
 protected:
  std::uint64_t displaces(const BlockKeys& prompt, WorkerId worker = kHome, std::uint32_t kv_blocks = 100) {
    prefixes_.look_up(view(prompt), now_);
    return prefixes_.would_displace(worker, kv_blocks);
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

TEST_F(ReusedPrefixesTest, APromptDisplacesNoMoreThanItsLength) {
  prefixes_.add(kHome, prompt(2, 300), 300, now_);
  EXPECT_EQ(displaces(prompt(3, 7)), 7U);
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

TEST_F(ReusedPrefixesTest, MemoryIsBounded) {
  const BlockKeys first = prompt(2, 90);
  prefixes_.add(kHome, first, 90, now_);
  const BlockKeys other = prompt(3, 10);
  for (std::size_t i = 0; i < ReusedPrefixes::kMost; ++i) prefixes_.add(kHome, other, 10, now_);
  EXPECT_EQ(displaces(prompt(4, 100)), 10U) << "the oldest use is given up";
}

}  // namespace
}  // namespace kvist::routing
