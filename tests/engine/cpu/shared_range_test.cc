#include "kvist/engine/cpu/shared_range.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvist::engine::cpu::shared_range_test {
namespace {

TEST(SharedRange, GivesEachThreadItsOwnPartThenWhatTheOthersLeft) {
  SharedRange range(2);
  range.begin(10, 2);
  const auto take = [&](unsigned thread) {
    const Range run = range.take(thread);
    return std::pair(run.begin, run.end);
  };
  using Run = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(take(1), Run(5, 7));
  EXPECT_EQ(take(0), Run(0, 2));
  EXPECT_EQ(take(0), Run(2, 4));
  EXPECT_EQ(take(0), Run(4, 5));  // no run goes over the end of a part
  EXPECT_EQ(take(0), Run(7, 9));  // thread 1 is slow
  EXPECT_EQ(take(1), Run(9, 10));
  EXPECT_EQ(range.take(0).size(), 0U);
  EXPECT_EQ(range.take(1).size(), 0U);
}

TEST(SharedRange, OneRunOfAllIsAPartEach) {
  SharedRange range(3);
  range.begin(7, 7);
  EXPECT_EQ(range.take(2).size(), 2U);
  EXPECT_EQ(range.take(2).size(), 3U);
  EXPECT_EQ(range.take(0).size(), 2U);
  EXPECT_EQ(range.take(1).size(), 0U);
}

TEST(SharedRange, ThreadsAtOnceTakeEachIndexOnce) {
  ThreadPool pool(4);
  SharedRange range(4);
  for (const std::size_t n : {0, 1, 3, 4, 1000, 4097}) {
    for (const std::size_t grain : {1, 7, 5000}) {
      std::vector<int> taken(n);
      range.begin(n, grain);
      pool.run([&](unsigned thread) {
        for (Range run; (run = range.take(thread)).size() > 0;) {
          for (std::size_t i = run.begin; i < run.end; ++i) ++taken[i];
        }
      });
      EXPECT_EQ(taken, std::vector<int>(n, 1)) << n << " by " << grain;
    }
  }
}

}  // namespace
}  // namespace kvist::engine::cpu::shared_range_test
