#include "kvist/planning/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kvist/base/random.h"

namespace kvist::planning::what_if_test {
namespace {

using spec::RoutingMode;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

/// Sessions of three turns on eight common beginnings, as a gateway before two workers would have recorded them.
/// Nothing of how they were answered.
workload::RecordedTraffic unanswered(std::uint32_t sessions) {
  workload::RecordedTraffic traffic;
  traffic.head = {.tokens_per_hash = 32, .workers = {"worker-0", "worker-1"}};
  traffic.trace.tokens_per_hash = 32;
  RandomStream random(3);
  std::vector<workload::TraceRequest>& requests = traffic.trace.requests;
  std::vector<std::uint32_t> last(sessions);
  std::vector<std::pair<int, std::uint32_t>> arrivals;  // ms, session; turns of a session in their order
  int start_ms = 0;
  for (std::uint32_t session = 0; session < sessions; ++session) {
    start_ms += static_cast<int>(random.uniform_int(40, 260));
    for (int turn = 0; turn < 3; ++turn) arrivals.emplace_back(start_ms + 910 * turn, session);
  }
  std::ranges::sort(arrivals);
  std::vector<bool> begun(sessions);
  for (const auto& [at_ms, session] : arrivals) {
    workload::TraceRequest request{.at = milliseconds(at_ms), .input_tokens = 640, .output_tokens = 20, .hash_ids = {}};
    for (std::uint64_t block = 0; block < 20; ++block) request.hash_ids.push_back(100 * (session % 8) + block);
    if (begun[session]) {
      const workload::TraceRequest& before = requests[last[session]];
      request.input_tokens = before.input_tokens + 50 + static_cast<std::uint32_t>(random.uniform_int(1, 300));
      request.hash_ids = before.hash_ids;
      while (request.hash_ids.size() < request.input_tokens / 32) request.hash_ids.push_back(random.next() >> 11);
      request.after = workload::FollowUp{.request = last[session], .pause = milliseconds(100)};
    }
    begun[session] = true;
    last[session] = static_cast<std::uint32_t>(requests.size());
    requests.push_back(std::move(request));
  }
  traffic.observed.resize(requests.size());
  for (workload::ObservedRequest& observed : traffic.observed) {
    observed.completed = true;
    observed.ttft_ms = observed.tpot_ms = 1;
  }
  return traffic;
}

Situation two_workers(RoutingMode mode = RoutingMode::kRoundRobin) {
  Situation situation{.deployment = {}, .mode = mode};
  for (int i = 0; i < 2; ++i) {
    spec::WorkerSpec worker;
    worker.name = "worker-" + std::to_string(i);
    worker.time_scale = 2;
    situation.deployment.workers.push_back(worker);
  }
  return situation;
}

/// The same requests as answered by a situation.
workload::RecordedTraffic answered_by(workload::RecordedTraffic traffic, const Situation& situation) {
  const Answers answers = replay(traffic, situation, 5).value();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    workload::ObservedRequest& observed = traffic.observed[i];
    observed = {.mode = situation.mode,
                .completed = answers[i].completed,
                .ttft_ms = answers[i].ttft_ms,
                .tpot_ms = answers[i].tpot_ms,
                .latency_ms = answers[i].latency_ms,
                .cached_tokens = answers[i].cached_tokens};
  }
  return traffic;
}

TEST(WhatIf, FindsTheTimesOfAFleetAndPredictsWhatItWouldHaveDone) {
  const Calibration truth{.step = 1.3, .prefill = 0.7, .way_in = milliseconds(4)};
  const workload::RecordedTraffic traffic = answered_by(unanswered(300), truth.applied_to(two_workers()).value());
  const WhatIfCase fleet{.fleet = "2 workers", .situation = two_workers()};
  const WhatIfCase kv{.fleet = "2 workers", .situation = two_workers(RoutingMode::kKv)};
  const auto answer = what_if(traffic, fleet, {kv}, {});
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->refusal, std::nullopt);
  EXPECT_EQ(answer->following, 600U);
  EXPECT_NEAR(answer->calibration.step, 1.3, 0.03);
  EXPECT_NEAR(answer->calibration.prefill, 0.7, 0.2) << "least of what first tokens take";
  for (const Metric metric : {Metric::kTtftP50, Metric::kTtftP95, Metric::kTpotP50, Metric::kLatencyP50}) {
    EXPECT_NEAR(*answer->fitted[metric] / *answer->observed[metric], 1, 0.03)
        << analysis::figure_of(metric).plain_title;
    EXPECT_GT(std::abs(*answer->simulated[metric] / *answer->observed[metric] - 1), 0.05)
        << analysis::figure_of(metric).plain_title;
  }
  const Answers then = replay(traffic, truth.applied_to(kv.situation).value(), 5).value();
  const LevelFigures would_have = figures_over({&then, 1}, joined(compared_blocks(traffic, 0.1, 10)));
  ASSERT_EQ(answer->predictions.size(), 2U);
  const Prediction& predicted = answer->predictions[1];
  EXPECT_NEAR(*predicted.figures[Metric::kTtftP50] / *would_have[Metric::kTtftP50], 1, 0.05);
  EXPECT_NEAR(*predicted.figures[Metric::kTtftP95] / *would_have[Metric::kTtftP95], 1, 0.12);
  const Change change = predicted.change(Metric::kTtftP95).value();
  EXPECT_LT(change.ratio, 0.97) << "kv computes less";
  EXPECT_LT(*change.low, change.ratio);
  EXPECT_GT(*change.high, change.ratio);
  EXPECT_EQ(answer->predictions[0].change(Metric::kTtftP50)->ratio, 1);
  EXPECT_GT(*predicted.figures[Metric::kHitRatePct], *answer->observed[Metric::kHitRatePct]);
  EXPECT_THAT(what_if_text(*answer, "t.jsonl"), HasSubstr("as it was"));
  EXPECT_THAT(what_if_json(*answer, "t.jsonl"), HasSubstr(R"("refusal": null)"));
}

TEST(WhatIf, AFitThatMeetsTheOtherHalfWorseIsLeftOut) {
  const auto figures = [](double ttft_p50, double ttft_p95, double tpot_p50) {
    LevelFigures of;
    of[Metric::kTtftP50] = ttft_p50;
    of[Metric::kTtftP95] = ttft_p95;
    of[Metric::kTpotP50] = tpot_p50;
    return of;
  };
  const LevelFigures observed = figures(100, 200, 10);
  EXPECT_TRUE(fit_misleads(observed, figures(100, 205, 10.1), figures(107, 268, 10.2)));
  EXPECT_FALSE(fit_misleads(observed, figures(100, 205, 10.1), figures(104, 206, 10.0)));  // 4 % are not much
  EXPECT_FALSE(fit_misleads(observed, figures(100, 205, 10.8), figures(107, 206, 10.0)));  // both are off
  EXPECT_FALSE(fit_misleads(observed, figures(130, 260, 13), figures(106, 203, 10.1)));
  EXPECT_TRUE(fit_misleads(observed, figures(100, 200, 10), LevelFigures()));

  WhatIf answer;
  answer.blocks = 10;
  answer.compared = 207;
  EXPECT_THAT(what_if_text(answer, "t.jsonl"), testing::Not(HasSubstr("left out")));
  EXPECT_THAT(what_if_json(answer, "t.jsonl"), HasSubstr(R"("fit_left_out": null)"));
  answer.left_out = Calibration{.step = 0.996, .prefill = 1.582, .way_in = {}};
  EXPECT_THAT(what_if_text(answer, "t.jsonl"),
              testing::AllOf(HasSubstr("prompt tokens x 1.582"), HasSubstr("That fit is left out"),
                             HasSubstr("207 requests are few to fit to")));
  EXPECT_THAT(what_if_json(answer, "t.jsonl"), HasSubstr(R"("prefill": 1.582)"));
}

TEST(WhatIf, PredictsNothingFromWhatItDoesNotUnderstand) {
  workload::RecordedTraffic traffic = answered_by(unanswered(100), two_workers());
  // Half of the requests waited for something that no model of steps has.
  for (std::size_t i = 0; i < traffic.observed.size(); i += 2) *traffic.observed[i].ttft_ms *= 30;
  const WhatIfCase fleet{.fleet = "2 workers", .situation = two_workers()};
  const auto answer = what_if(traffic, fleet, {}, {});
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  ASSERT_TRUE(answer->refusal.has_value());
  EXPECT_THAT(*answer->refusal, HasSubstr("TTFT p"));
  EXPECT_TRUE(answer->predictions.empty());
  EXPECT_THAT(what_if_text(*answer, "t.jsonl"), HasSubstr("Nothing is predicted: TTFT"));
}

TEST(WhatIf, WantsTheFleetAsItWasAndEnoughRequests) {
  const WhatIfCase fleet{.fleet = "2 workers", .situation = two_workers()};
  WhatIfCase three = fleet;
  three.situation.deployment.workers.emplace_back();
  const workload::RecordedTraffic traffic = unanswered(20);
  EXPECT_THAT(what_if(traffic, three, {}, {}).error().message, HasSubstr("of 2 workers and the deployment has 3"));
  EXPECT_THAT(what_if(unanswered(5), fleet, {}, {}).error().message, HasSubstr("want at least 40"));
}

TEST(WhatIf, TheModeIsThatOfMostRequests) {
  workload::RecordedTraffic traffic = unanswered(10);
  traffic.observed[3].mode = RoutingMode::kKv;
  EXPECT_EQ(recorded_mode(traffic), RoutingMode::kRoundRobin);
  for (std::size_t i = 0; i < 20; ++i) traffic.observed[i].mode = RoutingMode::kKv;
  EXPECT_EQ(recorded_mode(traffic), RoutingMode::kKv);
}

TEST(TrafficFigures, BlocksAreOfTimeAndLeaveTheWarmupOut) {
  workload::RecordedTraffic traffic = unanswered(50);
  traffic.observed[100].completed = false;
  const auto blocks = compared_blocks(traffic, 0.2, 5);
  ASSERT_EQ(blocks.size(), 5U);
  const Places all = joined(blocks);
  EXPECT_TRUE(std::ranges::is_sorted(all));
  EXPECT_FALSE(std::ranges::binary_search(all, 100U));
  const Duration first = traffic.trace.requests[all.front()].at;
  EXPECT_GE(to_seconds(first), 0.2 * to_seconds(traffic.trace.requests.back().at));
  EXPECT_EQ(compared_blocks(traffic, 0.2, 1'000).size(), all.size() / 20) << "a block has twenty requests at least";
}

TEST(TrafficFigures, AChangeIsARatioWithAnIntervalOverBlocks) {
  Answers before(400);
  Answers after(400);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double value = 100 + static_cast<double>(i % 40);
    before[i] = {.completed = true, .ttft_ms = value, .latency_ms = value};
    after[i] = {.completed = i % 10 != 0, .ttft_ms = (i < 200 ? 0.5 : 0.7) * value, .latency_ms = value};
  }
  std::vector<Places> blocks(10, Places(40));
  for (std::size_t b = 0; b < blocks.size(); ++b) std::iota(blocks[b].begin(), blocks[b].end(), 40 * b);
  const Change change = change_of(Metric::kTtftP50, {&before, 1}, {&after, 1}, blocks).value();
  EXPECT_NEAR(change.ratio, 0.6, 0.03);
  EXPECT_LT(*change.low, 0.55);
  EXPECT_GT(*change.high, 0.62);
  EXPECT_EQ(figures_over({&after, 1}, joined(blocks))[Metric::kErrorPct], 10);
  EXPECT_EQ(change_of(Metric::kTpotP50, {&before, 1}, {&after, 1}, blocks), std::nullopt);
  EXPECT_EQ(change_of(Metric::kTtftP50, {&before, 1}, {&after, 1}, {&blocks[0], 1})->low, std::nullopt);
}

}  // namespace
}  // namespace kvist::planning::what_if_test
