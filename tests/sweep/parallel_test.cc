#include "kvist/sweep/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace kvist::sweep::parallel_test {
namespace {

TEST(ParallelTest, EachIndexOnceWhateverTheNumberOfThreads) {
  for (const unsigned threads : {0U, 1U, 2U, 7U}) {
    std::vector<std::atomic<int>> seen(100);
    for_each_index(seen.size(), threads, [&](std::size_t i) { ++seen[i]; });
    for (const auto& times : seen) EXPECT_EQ(times, 1) << threads << " threads";
  }
}

TEST(ParallelTest, NothingToDo) {
  for_each_index(0, 4, [](std::size_t) { FAIL(); });
  EXPECT_GE(available_threads(), 1U);
}

}  // namespace
}  // namespace kvist::sweep::parallel_test
