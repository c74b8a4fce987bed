#include "kvist/planning/level_evaluator.h"

#include <gtest/gtest.h>

#include <memory>

namespace kvist::planning::level_evaluator_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Two short requests a second for a minute, on one fast worker.
spec::SweepSpec sweep_of_trace() {
  spec::SweepSpec sweep;
  sweep.deployment.workers.emplace_back();
  sweep.deployment.workers[0].step_time.fixed = milliseconds(5);
  sweep.workload.trace.file = "t.jsonl";
  sweep.method = {.warmup = seconds(5), .snapshots = 1, .snapshot_interval = seconds(10), .window = seconds(10)};
  return sweep;
}

workload::LoadInput two_a_second() {
  auto trace = std::make_shared<workload::Trace>();
  for (int i = 0; i < 120; ++i) trace->requests.push_back({milliseconds(500 * i), 100, 10, {}});
  return {.trace = std::move(trace), .recorded = nullptr};
}

TEST(SimulatedEvaluator, ALevelOfAnOpenTraceIsAPercentageOfItsRate) {
  const SimulatedEvaluator evaluator(two_a_second());
  for (const std::uint32_t percent : {100U, 250U}) {
    const auto figures = evaluator.evaluate(sweep_of_trace(), {.concurrency = percent, .seed = 1});
    ASSERT_TRUE(figures.has_value()) << figures.error().message;
    EXPECT_NEAR((*figures)[Metric::kTurnRate].value(), percent / 50.0, 0.11);
  }
}

TEST(SimulatedEvaluator, ALevelOfAClosedTraceIsHowManyAreSentAtOnce) {
  spec::SweepSpec sweep = sweep_of_trace();
  sweep.workload.trace.loop = spec::TraceLoop::kClosed;
  sweep.method = {
      .warmup = milliseconds(100), .snapshots = 1, .snapshot_interval = milliseconds(300), .window = milliseconds(300)};
  const SimulatedEvaluator evaluator(two_a_second());
  const auto one = evaluator.evaluate(sweep, {.concurrency = 1, .seed = 1});
  const auto four = evaluator.evaluate(sweep, {.concurrency = 4, .seed = 1});
  ASSERT_TRUE(one && four);
  EXPECT_GT((*four)[Metric::kTurnRate].value(), 2 * (*one)[Metric::kTurnRate].value());
}

/// Answers of a second each, with room for two at once: two a second are served, however many arrive.
spec::SweepSpec sweep_with_room_for_two(spec::WhenFull when_full) {
  spec::SweepSpec sweep;
  sweep.deployment.workers.emplace_back();
  sweep.deployment.workers[0].step_time.fixed = milliseconds(20);
  sweep.workload.turns_min = sweep.workload.turns_max = 1;
  sweep.workload.max_tokens = 50;
  sweep.workload.ignore_eos = true;
  sweep.workload.arrivals.kind = spec::ArrivalKind::kConstant;
  sweep.workload.arrivals.max_conversations = 2;
  sweep.workload.arrivals.when_full = when_full;
  sweep.method = {.warmup = seconds(20), .snapshots = 1, .snapshot_interval = seconds(40), .window = seconds(40)};
  return sweep;
}

TEST(SimulatedEvaluator, OpenArrivalsThatFoundNoPlaceAreErrors) {
  for (const spec::WhenFull when_full : {spec::WhenFull::kWait, spec::WhenFull::kRefuse}) {
    const spec::SweepSpec sweep = sweep_with_room_for_two(when_full);
    const auto served = SimulatedEvaluator().evaluate(sweep, {.concurrency = 60, .seed = 1});
    const auto too_many = SimulatedEvaluator().evaluate(sweep, {.concurrency = 480, .seed = 1});
    ASSERT_TRUE(served && too_many);
    EXPECT_EQ((*served)[Headline::kErrorPct].value(), 0);
    EXPECT_LT((*too_many)[Headline::kTtftP95].value(), 100) << "those that were sent had no queue before them";
    EXPECT_GT((*too_many)[Headline::kErrorPct].value(), 70) << "two of eight a second are served";
  }
}

TEST(SimulatedEvaluator, ATraceThatWasNotLoadedIsAnError) {
  EXPECT_FALSE(SimulatedEvaluator().evaluate(sweep_of_trace(), {.concurrency = 100, .seed = 1}).has_value());
}

}  // namespace
}  // namespace kvist::planning::level_evaluator_test
