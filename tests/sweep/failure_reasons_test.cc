#include "kvist/sweep/failure_reasons.h"

#include <gtest/gtest.h>

#include <string>

namespace kvist::sweep::failure_reasons_test {
namespace {

TEST(FailureReasons, TheMostFrequentComeFirstWithTheirNumbers) {
  FailureReasons reasons;
  EXPECT_EQ(reasons.text(), "");
  reasons.add("broken off");
  EXPECT_EQ(reasons.text(), "broken off");
  for (int i = 0; i < 3; ++i) reasons.add("no worker");
  EXPECT_EQ(reasons.text(), "3: no worker; 1: broken off");
  reasons.add("another");
  EXPECT_EQ(reasons.count(), 5U);
  EXPECT_EQ(reasons.text(), "3: no worker; 1: another; 1 for other reasons");
}

TEST(FailureReasons, ManyDifferentOnesAreBounded) {
  FailureReasons reasons;
  for (int i = 0; i < 1'000; ++i) reasons.add("error " + std::to_string(i));
  EXPECT_EQ(reasons.count(), 1'000U);
  EXPECT_EQ(reasons.text(), "1: error 0; 1: error 1; 998 for other reasons");
}

}  // namespace
}  // namespace kvist::sweep::failure_reasons_test
