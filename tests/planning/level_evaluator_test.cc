#include "kvist/planning/level_evaluator.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kvist/base/statistics.h"
#include "kvist/planning/level_judge.h"

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
    EXPECT_NEAR(figures->figures[Metric::kTurnRate].value(), percent / 50.0, 0.11);
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
  EXPECT_GT(four->figures[Metric::kTurnRate].value(), 2 * one->figures[Metric::kTurnRate].value());
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
    EXPECT_EQ(served->figures[Headline::kErrorPct].value(), 0);
    EXPECT_LT(too_many->figures[Headline::kTtftP95].value(), 100) << "those that were sent had no queue before them";
    EXPECT_GT(too_many->figures[Headline::kErrorPct].value(), 70) << "two of eight a second are served";
  }
}

/// A minute of which each second has ten short requests at once: those behind wait for those before.
workload::LoadInput ten_at_once() {
  auto trace = std::make_shared<workload::Trace>();
  for (int i = 0; i < 600; ++i) trace->requests.push_back({milliseconds(1'000 * (i / 10)), 100, 10, {}});
  return {.trace = std::move(trace), .recorded = nullptr};
}

TEST(SimulatedEvaluator, ALevelOfATraceHasItsBlocksOfTime) {
  spec::SweepSpec sweep = sweep_of_trace();
  sweep.method.snapshot_interval = sweep.method.window = seconds(40);
  const auto sample = SimulatedEvaluator(ten_at_once()).evaluate(sweep, {.concurrency = 100, .seed = 1});
  ASSERT_TRUE(sample) << sample.error().message;
  ASSERT_TRUE(sample->blocks);
  const BlockSamples& blocks = *sample->blocks;
  EXPECT_NEAR(static_cast<double>(blocks.turns), 400, 10);
  ASSERT_EQ(blocks.of(Headline::kTurnRate).size(), kBlocks);
  double turns = 0;
  double hits = 0;
  double prompts = 0;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    turns += blocks.of(Headline::kTurnRate)[i].value * blocks.of(Headline::kTurnRate)[i].weight;
    hits += blocks.of(Headline::kHitRatePct)[i].value;
    prompts += blocks.of(Headline::kHitRatePct)[i].weight;
    EXPECT_NEAR(blocks.of(Headline::kErrorPct)[i].weight, 40, 10);
  }
  EXPECT_NEAR(turns / 40, sample->figures[Headline::kTurnRate].value(), 0.01) << "no turn is in two blocks";
  EXPECT_EQ(hits, 0);
  EXPECT_NEAR(prompts, 100.0 * static_cast<double>(blocks.turns), 1'500);
  EXPECT_EQ(blocks.of(Timing::kTtft).size(), blocks.turns);
  EXPECT_TRUE(blocks.of(Timing::kItl).empty()) << "gaps were not kept";
  std::vector<double> ttft;
  for (const BlockSample& time : blocks.of(Timing::kTtft)) {
    ASSERT_LT(time.block, kBlocks);
    ttft.push_back(time.value);
  }
  EXPECT_NEAR(quantile_of_sorted(ttft, 0.95), sample->figures[Headline::kTtftP95].value(), 1e-3);
}

TEST(SimulatedEvaluator, OnlyAReplayHasBlocks) {
  const spec::SweepSpec sweep = sweep_with_room_for_two(spec::WhenFull::kWait);
  const auto sample = SimulatedEvaluator().evaluate(sweep, {.concurrency = 60, .seed = 1});
  ASSERT_TRUE(sample);
  EXPECT_FALSE(sample->blocks);
}

TEST(SimulatedEvaluator, ATraceThatIsUnevenHasAWideInterval) {
  const auto half_width = [](bool is_uneven) {
    auto trace = std::make_shared<workload::Trace>();
    for (int i = 0; i < 600; ++i) {
      // About one of fifteen prompts is long; in the uneven trace all of these come in the last quarter of the minute.
      const bool is_long = is_uneven ? i >= 450 && i % 4 == 0 : i % 15 == 0;
      trace->requests.push_back({milliseconds(100 * i), is_long ? 4'000U : 100U, 10, {}});
    }
    spec::SweepSpec sweep = sweep_of_trace();
    sweep.deployment.workers[0].step_time.per_prefill_token = std::chrono::microseconds(20);
    sweep.method.snapshot_interval = sweep.method.window = seconds(54);
    const SimulatedEvaluator evaluator({.trace = std::move(trace), .recorded = nullptr});
    const auto judgement = judge_level(evaluator, sweep, spec::RoutingMode::kKv, 100, {{Headline::kTtftP95, 60}},
                                       {.looks = {3}, .same_requests = true});
    const MeanInterval& figure = judgement.value().objectives.front().figure.value();
    return (figure.high - figure.low) / figure.mean;
  };
  EXPECT_LT(half_width(false), 0.25);
  EXPECT_GT(half_width(true), 0.5);
}

TEST(SimulatedEvaluator, ATraceThatWasNotLoadedIsAnError) {
  EXPECT_FALSE(SimulatedEvaluator().evaluate(sweep_of_trace(), {.concurrency = 100, .seed = 1}).has_value());
}

}  // namespace
}  // namespace kvist::planning::level_evaluator_test
