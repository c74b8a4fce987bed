#include "kvist/simulation/threads/huge_pages.h"

#include <gtest/gtest.h>
#include <jemalloc/jemalloc.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// With sanitizers the program has another allocator.
#pragma weak mallctl

namespace kvist::simulation::huge_pages_test {
namespace {

std::optional<unsigned> arena() {
  if (mallctl == nullptr) return std::nullopt;
  unsigned number = 0;
  std::size_t size = sizeof(number);
  EXPECT_EQ(mallctl("thread.arena", &number, &size, nullptr, 0), 0);
  return number;
}

std::optional<unsigned> arena_of_a_new_thread(std::vector<std::uint64_t>& filled) {
  std::optional<unsigned> number;
  std::thread([&] {
    use_huge_pages();
    use_huge_pages();  // the same
    filled.assign(5'000'000, 7);
    number = arena();
  }).join();
  return number;
}

TEST(HugePages, AThreadHasAnArenaOfItsOwnThatTheNextOneTakesOver) {
  use_huge_pages();
  const std::optional<unsigned> own = arena();
  if (!own) GTEST_SKIP() << "not with this allocator";
  std::vector<std::uint64_t> outlives;
  std::vector<std::uint64_t> too;
  const std::optional<unsigned> other = arena_of_a_new_thread(outlives);
  EXPECT_NE(other, own);
  EXPECT_EQ(arena_of_a_new_thread(too), other) << "the thread that had it has ended";
  EXPECT_EQ(outlives, too) << "what an ended thread allocated is still there";
  EXPECT_EQ(arena(), own);
}

/// Pages that the arena keeps though nothing is in them.
std::size_t kept_pages(unsigned number) {
  std::uint64_t epoch = 1;
  EXPECT_EQ(mallctl("epoch", nullptr, nullptr, &epoch, sizeof(epoch)), 0);
  std::size_t pages = 0;
  std::size_t size = sizeof(pages);
  const std::string name = "stats.arenas." + std::to_string(number) + ".pdirty";
  EXPECT_EQ(mallctl(name.c_str(), &pages, &size, nullptr, 0), 0);
  return pages;
}

TEST(HugePages, WhatIsFreedStaysUntilItIsGivenBack) {
  use_huge_pages();
  const std::optional<unsigned> own = arena();
  if (!own) GTEST_SKIP() << "not with this allocator";
  constexpr std::size_t kNumbers = 5'000'000;
  std::vector<std::uint64_t>(kNumbers, 7);
  EXPECT_GE(kept_pages(*own), kNumbers * sizeof(std::uint64_t) / 4'096);
  give_huge_pages_back();
  EXPECT_EQ(kept_pages(*own), 0U);
}

}  // namespace
}  // namespace kvist::simulation::huge_pages_test
