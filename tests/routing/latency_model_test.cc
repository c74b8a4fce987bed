#include "kvist/routing/latency_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kvist/base/random.h"

namespace kvist::routing {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr spec::StepTimeSpec kPrior{.fixed = microseconds(20'000),
                                    .per_prefill_token = nanoseconds(90'000),
                                    .per_sequence = microseconds(100),
                                    .per_kv_token_ns = 0};

double between(RandomStream& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

/// An engine with a jump: 20 ms + 0.1 ms per sequence up to 32, 12 ms more beyond.
double true_step_ms(std::uint32_t batch) {
  return 20 + 0.1 * batch + (batch > 32 ? 12 : 0);
}

TEST(LatencyModel, BeginsWithItsPrior) {
  const LatencyModel model(kPrior);
  EXPECT_DOUBLE_EQ(model.step_ms(10, 0), 21);
  EXPECT_NEAR(model.prefill_ms(1'000), 90, 1e-9);
  EXPECT_DOUBLE_EQ(model.step_error().relative(), 0);
}

TEST(LatencyModel, LearnsAJumpBetweenTwoBatchSizes) {
  LatencyModel model(kPrior);
  RandomStream random(7);
  for (int i = 0; i < 4'000; ++i) {
    const auto batch = static_cast<std::uint32_t>(random.uniform_int(20, 45));
    model.observe_step(batch, 0, true_step_ms(batch) * between(random, 0.97, 1.03));
  }
  for (const std::uint32_t batch : {24U, 31U, 32U, 33U, 34U, 44U}) {
    EXPECT_NEAR(model.step_ms(batch, 0), true_step_ms(batch), 0.06 * true_step_ms(batch)) << batch;
  }
  EXPECT_GT(model.step_ms(33, 0) - model.step_ms(32, 0), 8);
  EXPECT_LT(model.step_error().relative(), 0.05);
}

TEST(LatencyModel, WhatWasNotSeenFollowsTheNearest) {
  LatencyModel model(kPrior);
  for (int i = 0; i < 100; ++i) model.observe_step(30, 0, 2 * 23.0);
  EXPECT_NEAR(model.step_ms(31, 0) / 23.1, 2, 0.1);
  EXPECT_NEAR(model.step_ms(40, 0) / 24, 2, 0.1);
}

TEST(LatencyModel, AStallMovesLittleAndALastingChangeWins) {
  LatencyModel model(kPrior);
  for (int i = 0; i < 200; ++i) model.observe_step(16, 0, 22);
  const double before = model.step_ms(16, 0);
  model.observe_step(16, 0, 5'000);
  for (int i = 0; i < 16; ++i) model.observe_step(16, 0, 22);
  EXPECT_NEAR(model.step_ms(16, 0), before, 1.5);
  for (int i = 0; i < 300; ++i) model.observe_step(16, 0, 44);
  EXPECT_NEAR(model.step_ms(16, 0), 44, 2);
}

class WrongPrior : public ::testing::TestWithParam<double> {};

TEST_P(WrongPrior, IsForgottenForTheTimesToFirstToken) {
  const double factor = GetParam();
  spec::StepTimeSpec prior = kPrior;
  prior.fixed = from_milliseconds(20 * factor);
  prior.per_prefill_token = from_milliseconds(0.09 * factor);
  LatencyModel model(prior);
  RandomStream random(11);
  for (int i = 0; i < 300; ++i) {
    const double step = between(random, 20, 45);
    const double uncached = between(random, 50, 4'000);
    model.observe_first_token({.ttft_ms = (70 + 1.4 * step + 0.09 * uncached) * between(random, 0.9, 1.1),
                               .queue_ms = 0,
                               .step_ms = step,
                               .uncached_tokens = uncached});
  }
  for (const double uncached : {100.0, 1'000.0, 3'500.0}) {
    const double truth = 70 + 1.4 * 30 + 0.09 * uncached;
    EXPECT_NEAR(model.first_token_ms(30, uncached), truth, 0.1 * truth) << uncached;
  }
  EXPECT_NEAR(model.prefill_ms(1'000), 90, 10);
}

INSTANTIATE_TEST_SUITE_P(Factors, WrongPrior, ::testing::Values(0.1, 0.5, 1.0, 2.0, 10.0));

TEST(LatencyModel, RequestsBehindOtherPromptsDoNotTeachWhatAPromptCosts) {
  LatencyModel model(kPrior);
  for (int i = 0; i < 30; ++i) {
    model.observe_first_token({.ttft_ms = 100 + 0.09 * 1'000, .queue_ms = 0, .step_ms = 25, .uncached_tokens = 1'000});
  }
  const double before = model.prefill_ms(1'000);
  for (int i = 0; i < 30; ++i) {  // a burst: the queue before them was longer than anybody knew
    model.observe_first_token(
        {.ttft_ms = 500, .queue_ms = 0, .step_ms = 25, .uncached_tokens = 1'000, .ahead_tokens = 20'000});
  }
  EXPECT_NEAR(model.prefill_ms(1'000), before, 0.25 * before);
}

TEST(LatencyModel, WhatNoObservationTellsStays) {
  LatencyModel model(kPrior);
  for (int i = 0; i < 100; ++i) {
    const double uncached = 100.0 * (1 + i % 40);
    model.observe_first_token(
        {.ttft_ms = 80 + 0.09 * uncached, .queue_ms = 0, .step_ms = 25, .uncached_tokens = uncached});
  }
  RandomStream random(5);
  for (int i = 0; i < 2'000; ++i) {  // all find their history cached
    model.observe_first_token({.ttft_ms = 85 * between(random, 0.8, 1.2),
                               .queue_ms = 0,
                               .step_ms = 25,
                               .uncached_tokens = between(random, 40, 70)});
  }
  EXPECT_NEAR(model.prefill_ms(1'000), 90, 30);
}

// First tokens that come the sooner the longer a step takes, as far as noise shows: no weight says so. The others must
// not be driven away by trying to.
TEST(LatencyModel, AWeightAtItsBoundDoesNotDriveTheOthersAway) {
  LatencyModel model(kPrior);
  RandomStream random(5);
  for (int i = 0; i < 600; ++i) {
    const double step_ms = between(random, 18, 38);
    const double uncached = between(random, 60, 200);
    const double ttft_ms = (150 - 2.5 * step_ms + 0.4 * uncached) * between(random, 0.8, 1.2);
    model.observe_first_token({.ttft_ms = ttft_ms, .step_ms = step_ms, .uncached_tokens = uncached});
  }
  EXPECT_NEAR(model.first_token_ms(28, 130), 132, 25);
  EXPECT_LT(model.first_token_error().relative(), 0.35);
}

TEST(LatencyModel, StaysWithinBoundsWhateverItSees) {
  LatencyModel model(kPrior);
  RandomStream random(3);
  for (int i = 0; i < 5'000; ++i) {
    model.observe_first_token({.ttft_ms = std::pow(10, between(random, -3, 7)),
                               .queue_ms = between(random, 0, 1'000),
                               .step_ms = 25,
                               .uncached_tokens = 100});
    model.observe_step(static_cast<std::uint32_t>(random.uniform_int(1, 500)), 0, std::pow(10, between(random, -3, 5)));
    const double ttft = model.first_token_ms(25, 100);
    ASSERT_TRUE(std::isfinite(ttft) && ttft >= 0) << i;
    ASSERT_TRUE(std::isfinite(model.step_ms(100, 0)) && model.step_ms(100, 0) > 0) << i;
    ASSERT_GT(model.prefill_ms(1), 0) << i;
  }
}

}  // namespace
}  // namespace kvist::routing
