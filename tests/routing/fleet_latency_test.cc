#include "kvist/routing/fleet_latency.h"

#include <gtest/gtest.h>

namespace kvist::routing::fleet_latency_test {
namespace {

using std::chrono::milliseconds;

constexpr spec::StepTimeSpec kPrior{.fixed = milliseconds(20),
                                    .per_prefill_token = std::chrono::microseconds(90),
                                    .per_sequence = std::chrono::microseconds(0),
                                    .per_kv_token_ns = 0};
constexpr PrefillWork kPrompt{.uncached = 4'000};

TimePoint at(int ms) {
  return TimePoint(milliseconds(ms));
}

/// A prompt whose computation took twice as long as the prior says.
void observe_slow_prompt(FleetLatency& latency, WorkerId worker, TimePoint now) {
  latency.observe_first_token(worker, {.ttft_ms = 30 + 30 + 2 * 4'000 * 0.09, .step_ms = 20, .work = kPrompt}, 20,
                              false, now);
}

/// Two first tokens of one step, the second of which says nothing of prefill.
void observe_first_token_of_the_same_step(FleetLatency& latency, WorkerId worker, TimePoint now) {
  latency.observe_first_token(worker, {.ttft_ms = 500, .step_ms = 20, .work = kPrompt, .behind_ms = 499}, 20, false,
                              now);
}

TEST(FleetLatency, AWorkerThatTaughtNothingOfPrefillIsExpectedAsTheFleet) {
  FleetLatency latency(2, kPrior);
  const double before = latency.expect(WorkerId(0), at(0)).prefill_ms(kPrompt);
  int ms = 0;
  for (int i = 0; i < 100; ++i) {
    for (int step = 0; step < 12; ++step) latency.observe_step(WorkerId(0), 1, 0, 40, at(ms += 40));
    observe_first_token_of_the_same_step(latency, WorkerId(0), at(ms));
    observe_slow_prompt(latency, WorkerId(1), at(ms));
  }
  const auto expected = latency.expect(WorkerId(0), at(ms));
  EXPECT_DOUBLE_EQ(latency.learned_share(WorkerId(0)), 0);
  EXPECT_GT(expected.own_share(), 0.9);
  EXPECT_DOUBLE_EQ(expected.prefill_ms(kPrompt), latency.fleet().prefill_ms(kPrompt));
  EXPECT_GT(expected.prefill_ms(kPrompt), 1.5 * before);
  // Of its steps it has taught enough.
  EXPECT_NEAR(expected.step_ms(1, 0), 40, 4);
}

// Ten prompts of 95 tokens a step, 16 steps. Each step's first token comes after that of the step before by what all
// ten took, the others at once.
TEST(FleetLatency, PromptsOfOneStepTeachTogether) {
  FleetLatency latency(1, kPrior);
  const PrefillWork prompt{.uncached = 95};
  const double true_ms = 0.09 * 95;
  const auto gap = [&](std::size_t i) { return i % 10 == 0 ? 20 + 10 * true_ms : 0.1; };
  double now_ms = 100;
  for (std::size_t i = 0; i < 160; ++i) {
    now_ms += gap(i);
    latency.observe_first_token(WorkerId(0),
                                {.ttft_ms = now_ms,
                                 .queue_ms = true_ms * static_cast<double>(i),
                                 .step_ms = 20,
                                 .work = prompt,
                                 .ahead_tokens = 95.0 * static_cast<double>(i),
                                 .behind_ms = i == 0 ? 0 : now_ms - gap(i)},
                                20, i + 1 < 160, at(static_cast<int>(now_ms)));
  }
  EXPECT_NEAR(latency.fleet().prefill_ms(prompt), true_ms, 0.25 * true_ms);
  EXPECT_NEAR(latency.model(WorkerId(0)).prefill_ms(prompt), true_ms, 0.25 * true_ms);
  EXPECT_EQ(latency.fleet().first_token_error().observations, 160U);
}

// The first one's step is over when a first token comes that is not learned from. What comes at once behind that is not
// of the first one's step.
TEST(FleetLatency, AStepEndsWithAFirstTokenThatTeachesNothing) {
  FleetLatency one(1, kPrior);
  FleetLatency two(1, kPrior);
  const FirstTokenSample first{
      .ttft_ms = 1'000 + 20 + 2 * 4'000 * 0.09, .step_ms = 20, .work = kPrompt, .behind_ms = 1'000};
  const FirstTokenSample later{.ttft_ms = 2'000, .step_ms = 20, .work = kPrompt, .behind_ms = 1'999};
  for (FleetLatency* latency : {&one, &two}) latency->observe_first_token(WorkerId(0), first, 20, true, at(1'000));
  one.end_step(WorkerId(0), at(1'800));
  const double learned_ms = one.fleet().prefill_ms(kPrompt);
  for (FleetLatency* latency : {&one, &two}) latency->observe_first_token(WorkerId(0), later, 20, false, at(2'000));
  EXPECT_DOUBLE_EQ(one.fleet().prefill_ms(kPrompt), learned_ms);
  EXPECT_LT(two.fleet().prefill_ms(kPrompt), learned_ms) << "otherwise both prompts took the first one's time";
}

TEST(FleetLatency, FirstTokensOfLongAgoCountWhileTheWorkerIsObserved) {
  FleetLatency latency(2, kPrior);
  int ms = 0;
  for (int i = 0; i < 100; ++i, ms += 1'000) observe_slow_prompt(latency, WorkerId(0), at(ms));
  for (int i = 0; i < 15'000; ++i, ms += 20) latency.observe_step(WorkerId(0), 1, 0, 20, at(ms));
  const auto expected = latency.expect(WorkerId(0), at(ms));
  EXPECT_GT(latency.learned_share(WorkerId(0)), 0.99);
  EXPECT_NEAR(expected.prefill_ms(kPrompt), latency.model(WorkerId(0)).prefill_ms(kPrompt), 1);
}

TEST(FleetLatency, AWholeAnswerIsEvidenceOfTheWorkerThatGaveIt) {
  FleetLatency latency(2, kPrior);
  const double fleet_ms = latency.fleet().step_ms(4, 0);
  for (int i = 1; i <= 40; ++i) {
    latency.observe_whole_answer(
        WorkerId(0),
        {.step_ms = 20, .work = {.uncached = 100}, .elapsed_ms = 60 + 100 * 3 * fleet_ms, .steps = 100, .batch = 4},
        at(3'000 * i));
  }
  EXPECT_GT(latency.own_share(WorkerId(0), at(120'000)), 0.7);
  EXPECT_EQ(latency.own_share(WorkerId(1), at(120'000)), 0);
  EXPECT_NEAR(latency.expect(WorkerId(0), at(120'000)).step_ms(4, 0), 3 * fleet_ms, 0.2 * fleet_ms);
}

TEST(FleetLatency, AForgottenWorkerHasTaughtNothing) {
  FleetLatency latency(1, kPrior);
  for (int i = 0; i < 20; ++i) observe_slow_prompt(latency, WorkerId(0), at(1'000 * i));
  EXPECT_GT(latency.learned_share(WorkerId(0)), 0.9);
  latency.forget(WorkerId(0), kPrior);
  EXPECT_DOUBLE_EQ(latency.learned_share(WorkerId(0)), 0);
}

}  // namespace
}  // namespace kvist::routing::fleet_latency_test
