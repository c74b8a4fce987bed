#include "kvist/routing/latency_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kvist/base/random.h"

namespace kvist::routing::latency_model_test {
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
  // Attention takes as long as everything else at 20,480 tokens.
  EXPECT_NEAR(model.prefill_ms({.uncached = 20'480}), 2 * 0.09 * 20'480, 1e-9);
  EXPECT_NEAR(model.prefill_ms({.uncached = 100, .cached = 10'190}), 2 * 9, 1e-9);
  EXPECT_DOUBLE_EQ(model.step_error().relative(), 0);
  // Unless the prior says what a pair of tokens takes: 20,480 of them have 20,480 x 20,480 / 2.
  spec::StepTimeSpec prior = kPrior;
  prior.per_prefill_pair_ns = 5;
  EXPECT_NEAR(LatencyModel(prior).prefill_ms({.uncached = 20'480}), 0.09 * 20'480 + 5e-6 * 20'480 * 20'480 / 2, 1e-6);
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
                               .work = {.uncached = uncached}});
  }
  for (const double uncached : {100.0, 1'000.0, 3'500.0}) {
    const double truth = 70 + 1.4 * 30 + 0.09 * uncached;
    EXPECT_NEAR(model.first_token_ms(30, {.uncached = uncached}), truth, 0.1 * truth) << uncached;
  }
  EXPECT_NEAR(model.prefill_ms({.uncached = 1'000}), 90, 10);
}

/// 94 us per token and 5 ns per pair: a 70B model on an H200.
double true_prefill_ms(const PrefillWork& work) {
  return 0.094 * work.uncached + 5e-6 * work.pairs();
}

TEST_P(WrongPrior, IsForgottenForLongPrompts) {
  spec::StepTimeSpec prior = kPrior;
  prior.per_prefill_token = from_milliseconds(0.09 * GetParam());
  LatencyModel model(prior);
  RandomStream random(13);
  for (int i = 0; i < 300; ++i) {
    const double tokens = std::pow(10, between(random, 2, 5.1));
    const double cached = tokens * (i % 3 == 0 ? between(random, 0, 1) : 0);
    const PrefillWork work{.uncached = tokens - cached, .cached = cached};
    model.observe_first_token(
        {.ttft_ms = (110 + true_prefill_ms(work)) * between(random, 0.9, 1.1), .step_ms = 25, .work = work});
  }
  for (const double uncached : {3'000.0, 20'000.0, 80'000.0}) {
    for (const double cached : {0.0, 20'000.0}) {
      const PrefillWork work{.uncached = uncached, .cached = cached};
      EXPECT_NEAR(model.prefill_ms(work), true_prefill_ms(work), 0.12 * true_prefill_ms(work) + 30)
          << uncached << " uncached, " << cached << " cached";
    }
  }
}

// As before, with attention alone ten times too dear or too cheap.
TEST_P(WrongPrior, OfAttentionIsForgotten) {
  spec::StepTimeSpec prior = kPrior;
  prior.per_prefill_pair_ns = 5 * GetParam();
  LatencyModel model(prior);
  RandomStream random(17);
  for (int i = 0; i < 300; ++i) {
    const PrefillWork work{.uncached = std::pow(10, between(random, 2, 5.1))};
    model.observe_first_token(
        {.ttft_ms = (110 + true_prefill_ms(work)) * between(random, 0.9, 1.1), .step_ms = 25, .work = work});
  }
  for (const double uncached : {3'000.0, 20'000.0, 80'000.0}) {
    const double truth = true_prefill_ms({.uncached = uncached});
    EXPECT_NEAR(model.prefill_ms({.uncached = uncached}), truth, 0.12 * truth + 30) << uncached;
  }
}

// Of each answer only the end is seen. Their lengths tell the steps and the first tokens apart.
TEST_P(WrongPrior, IsForgottenByAnswersThatComeWhole) {
  spec::StepTimeSpec prior = kPrior;
  prior.fixed = from_milliseconds(20 * GetParam());
  prior.per_prefill_token = from_milliseconds(0.09 * GetParam());
  LatencyModel model(prior);
  RandomStream random(19);
  constexpr double kStep = 25;
  for (int i = 0; i < 1'000; ++i) {
    const PrefillWork work{.uncached = between(random, 50, 30'000)};
    const double steps = std::floor(between(random, 0, i % 2 == 0 ? 20 : 400));
    const PrefillSum others{.uncached = i % 3 == 0 ? between(random, 0, 20'000) : 0, .pairs = 0};
    const double elapsed_ms = (30 + 1.5 * kStep + true_prefill_ms(work) + 0.094 * others.uncached + steps * kStep) *
                              between(random, 0.95, 1.05);
    model.observe_whole_answer(
        {.step_ms = kStep, .work = work, .others = others, .elapsed_ms = elapsed_ms, .steps = steps, .batch = 8});
  }
  EXPECT_NEAR(model.step_ms(8, 0), kStep, 0.1 * kStep);
  for (const double uncached : {2'000.0, 20'000.0}) {
    const double truth = 30 + 1.5 * kStep + true_prefill_ms({.uncached = uncached});
    EXPECT_NEAR(model.first_token_ms(kStep, {.uncached = uncached}), truth, 0.15 * truth) << uncached;
  }
  // Half of such an answer's time is known by now to have been its prefill.
  const WholeAnswerSample sample{
      .step_ms = kStep, .work = {.uncached = 10'000}, .elapsed_ms = 1'258 + 50 * kStep, .steps = 50, .batch = 8};
  EXPECT_NEAR(model.first_token_after_ms(sample), 1'258, 150);
}

// A queue whose length was not known says nothing of the steps.
TEST(LatencyModel, AWholeAnswerThatWaitedTeachesLittleOfItsSteps) {
  LatencyModel model(kPrior);
  for (int i = 0; i < 50; ++i) {
    model.observe_whole_answer({.step_ms = 25,
                                .work = {.uncached = 100},
                                .elapsed_ms = 70 + 9 + 20 * model.step_ms(8, 0),
                                .steps = 20,
                                .batch = 8});
  }
  const double before = model.step_ms(8, 0);
  for (int i = 0; i < 20; ++i) {
    model.observe_whole_answer({.queue_ms = 20'000,
                                .step_ms = 25,
                                .work = {.uncached = 100},
                                .ahead_tokens = 200'000,
                                .elapsed_ms = 5'000,
                                .steps = 20,
                                .batch = 8});
  }
  EXPECT_NEAR(model.step_ms(8, 0), before, 0.05 * before);
}

INSTANTIATE_TEST_SUITE_P(Factors, WrongPrior, ::testing::Values(0.1, 0.5, 1.0, 2.0, 10.0));

TEST(LatencyModel, RequestsBehindOtherPromptsDoNotTeachWhatAPromptCosts) {
  LatencyModel model(kPrior);
  for (int i = 0; i < 30; ++i) {
    model.observe_first_token(
        {.ttft_ms = 100 + 0.09 * 1'000, .queue_ms = 0, .step_ms = 25, .work = {.uncached = 1'000}});
  }
  const double before = model.prefill_ms({.uncached = 1'000});
  for (int i = 0; i < 30; ++i) {  // a burst: the queue before them was longer than known
    model.observe_first_token(
        {.ttft_ms = 500, .queue_ms = 0, .step_ms = 25, .work = {.uncached = 1'000}, .ahead_tokens = 20'000});
  }
  EXPECT_NEAR(model.prefill_ms({.uncached = 1'000}), before, 0.25 * before);
}

// Under load hardly any prompt finds an idle worker. Its wait does not matter: the forecast of it is wrong by seconds
// here.
TEST(LatencyModel, APromptThatWaitedTellsOfItsPrefillFromTheOneBeforeIt) {
  spec::StepTimeSpec prior = kPrior;
  prior.per_prefill_token = from_milliseconds(0.3);
  LatencyModel model(prior);
  RandomStream random(17);
  for (int i = 0; i < 100; ++i) {
    const PrefillWork work{.uncached = between(random, 1'000, 30'000)};
    const double behind_ms = between(random, 500, 9'000);
    model.observe_first_token({.ttft_ms = behind_ms + 25 + true_prefill_ms(work) * between(random, 0.95, 1.05),
                               .queue_ms = between(random, 0, 20'000),
                               .step_ms = 25,
                               .work = work,
                               .ahead_tokens = 40'000,
                               .behind_ms = behind_ms});
  }
  for (const double uncached : {3'000.0, 20'000.0}) {
    const double truth = true_prefill_ms({.uncached = uncached});
    EXPECT_NEAR(model.prefill_ms({.uncached = uncached}), truth, 0.1 * truth) << uncached;
  }
}

TEST(LatencyModel, TwoFirstTokensOfOneStepTellNothing) {
  LatencyModel model(kPrior);
  const PrefillWork work{.uncached = 4'000};
  const double before = model.prefill_ms(work);
  for (int i = 0; i < 50; ++i) {
    model.observe_first_token({.ttft_ms = 800.1, .step_ms = 25, .work = work, .ahead_tokens = 4'000, .behind_ms = 800});
  }
  EXPECT_DOUBLE_EQ(model.prefill_ms(work), before);
}

TEST(LatencyModel, WhatNoObservationTellsStays) {
  LatencyModel model(kPrior);
  for (int i = 0; i < 100; ++i) {
    const double uncached = 100.0 * (1 + i % 40);
    model.observe_first_token(
        {.ttft_ms = 80 + 0.09 * uncached, .queue_ms = 0, .step_ms = 25, .work = {.uncached = uncached}});
  }
  RandomStream random(5);
  for (int i = 0; i < 2'000; ++i) {  // all find their history cached
    model.observe_first_token({.ttft_ms = 85 * between(random, 0.8, 1.2),
                               .queue_ms = 0,
                               .step_ms = 25,
                               .work = {.uncached = between(random, 40, 70)}});
  }
  EXPECT_NEAR(model.prefill_ms({.uncached = 1'000}), 90, 30);
}

// By noise, first tokens seem to come earlier the longer a step takes, which no weight can express. The other weights
// must not diverge because of it.
TEST(LatencyModel, AWeightAtItsBoundDoesNotDriveTheOthersAway) {
  LatencyModel model(kPrior);
  RandomStream random(5);
  for (int i = 0; i < 600; ++i) {
    const double step_ms = between(random, 18, 38);
    const double uncached = between(random, 60, 200);
    const double ttft_ms = (150 - 2.5 * step_ms + 0.4 * uncached) * between(random, 0.8, 1.2);
    model.observe_first_token({.ttft_ms = ttft_ms, .step_ms = step_ms, .work = {.uncached = uncached}});
  }
  EXPECT_NEAR(model.first_token_ms(28, {.uncached = 130}), 132, 25);
  EXPECT_LT(model.first_token_error().relative(), 0.35);
}

TEST(LatencyModel, StaysWithinBoundsWhateverItSees) {
  LatencyModel model(kPrior);
  RandomStream random(3);
  for (int i = 0; i < 5'000; ++i) {
    model.observe_first_token({.ttft_ms = std::pow(10, between(random, -3, 7)),
                               .queue_ms = between(random, 0, 1'000),
                               .step_ms = 25,
                               .work = {.uncached = 100}});
    model.observe_step(static_cast<std::uint32_t>(random.uniform_int(1, 500)), 0, std::pow(10, between(random, -3, 5)));
    const double ttft = model.first_token_ms(25, {.uncached = 100});
    ASSERT_TRUE(std::isfinite(ttft) && ttft >= 0) << i;
    ASSERT_TRUE(std::isfinite(model.step_ms(100, 0)) && model.step_ms(100, 0) > 0) << i;
    ASSERT_GT(model.prefill_ms({.uncached = 1}), 0) << i;
  }
}

}  // namespace
}  // namespace kvist::routing::latency_model_test
