#include "kvist/engine/admission.h"

#include <gtest/gtest.h>

namespace kvist::engine::admission_test {
namespace {

TEST(ReserveToCompletion, AdmitsWhatFitsAndNotOneBlockMore) {
  const ReserveToCompletion policy;
  EXPECT_TRUE(policy.admits({.total = 10}, 10));
  EXPECT_FALSE(policy.admits({.total = 11}, 10));
}

TEST(ReserveToCompletion, CountsWhatIsPromisedToOthers) {
  ReserveToCompletion policy;
  policy.on_admitted({.total = 6});
  EXPECT_EQ(policy.reserved(), 6U);
  EXPECT_TRUE(policy.admits({.total = 4}, 10));
  EXPECT_FALSE(policy.admits({.total = 5}, 10));
}

TEST(ReserveToCompletion, AnAllocationMovesABlockFromPromisedToUsed) {
  ReserveToCompletion policy;
  policy.on_admitted({.total = 6});
  policy.on_allocated(2);
  EXPECT_EQ(policy.reserved(), 4U);
  // Two of ten blocks are used now, so eight are free: still four for others.
  EXPECT_TRUE(policy.admits({.total = 4}, 8));
  EXPECT_FALSE(policy.admits({.total = 5}, 8));
}

TEST(ReserveToCompletion, CachedBlocksInUseAreFreeOfChargeAndFreeOnesAreNot) {
  const ReserveToCompletion policy;
  EXPECT_TRUE(policy.admits({.total = 14, .cached = 4, .cached_free = 0}, 10));
  EXPECT_FALSE(policy.admits({.total = 14, .cached = 4, .cached_free = 1}, 10));
  EXPECT_TRUE(policy.admits({.total = 10, .cached = 4, .cached_free = 4}, 10));
}

TEST(ReserveToCompletion, ARequestThatLeavesGivesItsPromiseBack) {
  ReserveToCompletion policy;
  policy.on_admitted({.total = 9, .cached = 2});
  policy.on_allocated(3);
  policy.on_left(4);
  EXPECT_EQ(policy.reserved(), 0U);
}

TEST(ReserveToCompletionDeathTest, RefusesToPromiseLessThanNothing) {
  ReserveToCompletion policy;
  policy.on_admitted({.total = 1});
  EXPECT_DEATH(policy.on_allocated(2), "reserved");
  EXPECT_DEATH(policy.on_left(2), "reserved");
}

}  // namespace
}  // namespace kvist::engine::admission_test
