#include "kvist/routing/admission.h"

#include <gtest/gtest.h>

namespace kvist::routing::admission_test {
namespace {

constexpr std::uint32_t kBlocks = 1'000;
constexpr std::uint32_t kSlots = 64;

TimePoint at(int seconds) {
  return TimePoint(std::chrono::seconds(100 + seconds));
}

class AdmissionTest : public testing::Test {
 protected:
  AdmissionTest() { admission_.set_limits(kBlocks, kSlots); }
  void refuse(std::uint32_t steps, double asked, std::uint32_t decoding = 50) {
    for (std::uint32_t i = 0; i < steps; ++i) admission_.on_refused(decoding, at(0), [&] { return asked; });
  }
  void admit(double running, int seconds = 0) {
    admission_.on_admitted([&] { return running; }, at(seconds));
  }
  Admission admission_;
};

TEST_F(AdmissionTest, AFewStepsOfDecodingShowNothing) {
  refuse(Admission::kSteps - 1, 700);
  EXPECT_FALSE(admission_.stalled());
  EXPECT_DOUBLE_EQ(admission_.usable_share(at(0)), 1);
  admission_.on_other_step();
  refuse(Admission::kSteps - 1, 700);
  EXPECT_FALSE(admission_.stalled()) << "a prompt was computed in between";
}

TEST_F(AdmissionTest, WhatIsNotLetInIsABound) {
  refuse(Admission::kSteps, 700);
  EXPECT_TRUE(admission_.stalled());
  EXPECT_DOUBLE_EQ(admission_.usable_share(at(0)), 0.7);
  refuse(1, 900);
  EXPECT_DOUBLE_EQ(admission_.usable_share(at(0)), 0.7) << "that says nothing new";
  admit(680);
  EXPECT_FALSE(admission_.stalled());
  EXPECT_DOUBLE_EQ(admission_.usable_share(at(0)), 0.7);
  admit(800);
  EXPECT_DOUBLE_EQ(admission_.usable_share(at(0)), 0.8) << "more was let in";
  admit(2'000);
  EXPECT_DOUBLE_EQ(admission_.usable_share(at(0)), 1);
}

TEST_F(AdmissionTest, ABoundIsForgottenSlowly) {
  refuse(Admission::kSteps, 500);
  EXPECT_NEAR(admission_.usable_share(at(60)), 1 - 0.5 / 2.718281828, 1e-6);
  EXPECT_GT(admission_.usable_share(at(600)), 0.999);
}

TEST_F(AdmissionTest, AFullBatchIsNoLackOfMemory) {
  refuse(Admission::kSteps, 700, kSlots);
  EXPECT_TRUE(admission_.stalled());
  EXPECT_DOUBLE_EQ(admission_.usable_share(at(0)), 1);
}

TEST_F(AdmissionTest, WithoutKnownBlocksThereIsNoShare) {
  admission_.set_limits(0, 0);
  refuse(Admission::kSteps, 700);
  EXPECT_TRUE(admission_.stalled());
  EXPECT_DOUBLE_EQ(admission_.usable_share(at(0)), 1);
}

}  // namespace
}  // namespace kvist::routing::admission_test
