#include "kvist/routing/limit_inference.h"

#include <gtest/gtest.h>

#include <limits>

namespace kvist::routing::limit_inference_test {
namespace {

TEST(LimitInference, NothingIsInferredWhileNobodyWaits) {
  LimitInference inference;
  for (int i = 0; i < 100; ++i) inference.on_report(40, 0);
  EXPECT_EQ(inference.batch_slots(), 0U);
}

TEST(LimitInference, ASteadyBatchBeforeAQueueIsTheNumberOfSlots) {
  LimitInference inference;
  inference.on_report(63, 5);
  inference.on_report(64, 9);
  EXPECT_EQ(inference.batch_slots(), 0U);
  inference.on_report(64, 7);
  EXPECT_EQ(inference.batch_slots(), 64U);
}

TEST(LimitInference, ABurstThatIsBeingAdmittedIsNoEvidence) {
  LimitInference inference;
  for (const double running : {4.0, 16.0, 32.0, 48.0}) inference.on_report(running, 20);
  inference.on_report(60, 0);
  inference.on_report(60, 1);
  inference.on_report(60, 1);
  EXPECT_EQ(inference.batch_slots(), 0U);
}

TEST(LimitInference, MoreRunningRaisesTheEstimateAtOnceLessTakesEvidence) {
  LimitInference inference;
  for (int i = 0; i < 3; ++i) inference.on_report(32, 1);
  inference.on_report(40, 0);
  EXPECT_EQ(inference.batch_slots(), 40U);
  inference.on_report(30, 2);
  inference.on_report(30, 2);
  EXPECT_EQ(inference.batch_slots(), 40U);
  inference.on_report(30, 2);
  EXPECT_EQ(inference.batch_slots(), 30U);
}

TEST(LimitInference, WhatASlowMinuteLetInferIsTriedAgain) {
  LimitInference inference;
  for (int i = 0; i < 6; ++i) inference.on_first_token(8, true);
  ASSERT_EQ(inference.batch_slots(), 8U);
  // A router that keeps to it never sees more than that decoding.
  const auto observe = [&] { inference.on_first_token(inference.batch_slots(), false); };
  for (std::uint32_t i = 1; i < LimitInference::kCalm; ++i) observe();
  inference.on_first_token(3, false);  // says nothing of the limit
  EXPECT_EQ(inference.batch_slots(), 8U);
  observe();
  EXPECT_EQ(inference.batch_slots(), 9U);
  for (std::uint32_t i = 0; i < 5 * LimitInference::kCalm; ++i) observe();
  EXPECT_EQ(inference.batch_slots(), 14U);
}

TEST(LimitInference, BeyondATrueLimitTheEstimateRisesByOne) {
  LimitInference inference;
  for (int i = 0; i < 3; ++i) inference.on_report(16, 2);
  for (std::uint32_t i = 0; i < 10 * LimitInference::kCalm; ++i) inference.on_report(16, 0);
  EXPECT_EQ(inference.batch_slots(), 17U);
  for (int i = 0; i < 3; ++i) inference.on_report(16, 1);
  EXPECT_EQ(inference.batch_slots(), 16U);
}

TEST(LimitInference, LateFirstTokensAtOneBatchSizeAreEvidenceToo) {
  LimitInference inference;
  for (int i = 0; i < 5; ++i) inference.on_first_token(16, true);
  inference.on_first_token(12, false);
  for (int i = 0; i < 5; ++i) inference.on_first_token(i % 2 == 0 ? 16 : 15, true);
  EXPECT_EQ(inference.batch_slots(), 0U);
  inference.on_first_token(16, true);
  EXPECT_EQ(inference.batch_slots(), 16U);
  inference.on_first_token(20, false);
  EXPECT_EQ(inference.batch_slots(), 20U);
}

TEST(LimitInference, AForecastThatHasNotLearnedYetIsNoEvidence) {
  LimitInference inference;
  for (std::uint32_t decoding = 1; decoding <= 3; ++decoding) {
    for (int i = 0; i < 10; ++i) inference.on_first_token(decoding, true);
  }
  for (std::uint32_t decoding = 4; decoding < 60; ++decoding) {
    for (int i = 0; i < 2; ++i) inference.on_first_token(decoding, true);
  }
  EXPECT_EQ(inference.batch_slots(), 0U);
}

TEST(LimitInference, NonsenseIsIgnored) {
  LimitInference inference;
  for (int i = 0; i < 5; ++i) {
    inference.on_report(std::numeric_limits<double>::quiet_NaN(), 5);
    inference.on_report(-3, 5);
    inference.on_report(1e30, 5);
    inference.on_report(0, 5);
  }
  EXPECT_EQ(inference.batch_slots(), 0U);
}

TEST(LimitInference, ARestartedWorkerIsUnknownAgain) {
  LimitInference inference;
  for (int i = 0; i < 3; ++i) inference.on_report(8, 3);
  inference.restart();
  EXPECT_EQ(inference.batch_slots(), 0U);
}

}  // namespace
}  // namespace kvist::routing::limit_inference_test
