#include "kvist/dispatch/worker_holds.h"

#include <gtest/gtest.h>

#include <string>

namespace kvist::dispatch::worker_holds_test {
namespace {

TEST(WorkerHolds, TheLastDecisionCountsUntilItIsUndone) {
  WorkerHolds holds;
  EXPECT_FALSE(holds.find("a"));
  holds.set("a", WorkerHold::kCordoned);
  holds.set("b", WorkerHold::kRemoved);
  holds.set("a", WorkerHold::kRemoved);
  EXPECT_EQ(holds.find("a"), WorkerHold::kRemoved);
  EXPECT_EQ(holds.entries().size(), 2U);
  EXPECT_TRUE(holds.release("a"));
  EXPECT_FALSE(holds.release("a"));
  EXPECT_FALSE(holds.find("a"));
  EXPECT_EQ(holds.find("b"), WorkerHold::kRemoved);
}

TEST(WorkerHolds, ForgetsTheOldestOfTooMany) {
  WorkerHolds holds;
  for (std::size_t i = 0; i <= WorkerHolds::kMost; ++i) holds.set(std::to_string(i), WorkerHold::kCordoned);
  EXPECT_EQ(holds.entries().size(), WorkerHolds::kMost);
  EXPECT_FALSE(holds.find("0"));
  EXPECT_TRUE(holds.find("1"));
}

}  // namespace
}  // namespace kvist::dispatch::worker_holds_test
