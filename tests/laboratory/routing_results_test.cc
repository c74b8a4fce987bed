#include "kvist/laboratory/routing_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/sample_run.h"

namespace kvist::laboratory {
namespace {

using analysis::sample_level;
using analysis::sample_run;
using analysis::sample_sweep;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kManifest = R"yaml(candidate: kv
baseline: round_robin
bars:
  p50:
    claim: "TTFT p50 not worse"
    holds_if: "not_worse(ttft_p50_ms)"
    shows: "{{fixed(ratio(ttft_p50_ms), 3)}} ({{fixed(low(ttft_p50_ms), 3)}} to {{fixed(high(ttft_p50_ms), 3)}})"
  below-dynamo:
    claim: "p95 below Dynamo's"
    holds_if: "ttft_p95_ms(kv) < ttft_p95_ms(dynamo)"
    shows: "{{ms(ttft_p95_ms(kv))}}"
scenarios:
  - name: sample
    title: "A sample"
    shows: "What it shows."
    plot: true
    bars: [below-dynamo, {bar: p50, from: 40, up_to: 45}, p50]
    shortfalls:
      - {bar: p50, levels: [50], because: "It was made so."}
)yaml";

Result<RoutingScenarios> scenarios(const std::string& text = kManifest) {
  return read_routing_scenarios(YamlNode::parse(text, "routing.yaml").value());
}

std::string error_with(const std::string& from, const std::string& to) {
  std::string text = kManifest;
  text.replace(text.find(from), from.size(), to);
  const auto read = scenarios(text);
  return read ? "accepted" : read.error().message;
}

/// Three seeds; TTFT p50 of kv 0.8 of round-robin's at 40 and 1.2 of it at 50.
analysis::RunAnalysis sample_analysis() {
  results::RunRecord run = sample_run();
  run.levels.clear();
  for (const std::uint32_t concurrency : {40U, 50U}) {
    for (std::uint32_t repetition = 0; repetition < 3; ++repetition) {
      for (const auto mode : {spec::RoutingMode::kRoundRobin, spec::RoutingMode::kKv}) {
        results::LevelRecord level = sample_level(mode, concurrency, 0);
        const double share = mode == spec::RoutingMode::kKv ? (concurrency == 40 ? 0.8 : 1.2) : 1;
        for (workload::Snapshot& snapshot : level.snapshots) snapshot.ttft_p50_ms = (200 + 10.0 * repetition) * share;
        level.repetition = repetition;
        level.seed = 10 * concurrency + repetition;
        run.levels.push_back(std::move(level));
      }
    }
  }
  spec::SweepSpec sweep = sample_sweep();
  sweep.method.repetitions = 3;
  return {run, sweep};
}

RoutingResults sample_results() {
  RoutingResults results(spec::RoutingMode::kKv, spec::RoutingMode::kRoundRobin);
  EXPECT_TRUE(results.add(scenarios()->scenarios.front(), sample_analysis()).has_value());
  return results;
}

TEST(RoutingScenarios, MistakesNameTheirPlace) {
  EXPECT_THAT(error_with("bars: [below", "bars: [above"), HasSubstr("no bar is called \"above-dynamo\""));
  EXPECT_THAT(error_with("- {bar: p50,", "- {bar: p99,"), HasSubstr("routing.yaml:19"));
  EXPECT_THAT(error_with("candidate: kv", "candidate: best"), HasSubstr("unknown routing mode \"best\""));
  EXPECT_THAT(error_with("because:", "why:"), HasSubstr("because"));
  EXPECT_THAT(error_with("from: 40", "below: 40"), HasSubstr("below: unknown key"));
}

TEST(RoutingScenarios, AnInvalidPredicateNamesItsBar) {
  std::string text = kManifest;
  text.replace(text.find("not_worse(ttft_p50_ms)"), 22, "not_worse(speed)");
  RoutingResults results(spec::RoutingMode::kKv, spec::RoutingMode::kRoundRobin);
  const auto added = results.add(scenarios(text)->scenarios.front(), sample_analysis());
  ASSERT_FALSE(added.has_value());
  EXPECT_THAT(added.error().message, HasSubstr("sample: bar p50"));
}

TEST(RoutingResults, BarsAreCheckedLevelByLevelIfDemanded) {
  const RoutingResults results = sample_results();
  const RoutingRun& run = *results.runs().front();
  ASSERT_EQ(run.outcomes.size(), 5U);  // dynamo at both levels, p50 at 40, p50 at both
  EXPECT_FALSE(run.outcomes[0].holds.has_value()) << "dynamo was not measured";
  EXPECT_EQ(run.outcomes[2].level, 40U);
  EXPECT_EQ(run.outcomes[2].holds, true);
  EXPECT_EQ(run.outcomes[2].shows, "0.800 (0.800 to 0.800)");
  EXPECT_EQ(run.outcomes[4].level, 50U);
  EXPECT_EQ(run.outcomes[4].holds, false);
  EXPECT_EQ(results.count(true), 2U);
  EXPECT_EQ(results.count(false), 1U);
  EXPECT_EQ(results.count(std::nullopt), 2U);
}

TEST(RoutingResults, TheDocumentListsEveryShortfallWithItsNumbers) {
  const std::string text = sample_results().markdown("images/routing");
  EXPECT_THAT(text, HasSubstr("**sample, 50 users:** TTFT p50 not worse: 1.200 (1.200 to 1.200). It was made so."));
  EXPECT_THAT(text, Not(HasSubstr("Not explained yet")));
  EXPECT_THAT(text, HasSubstr("| A sample | 2 | 1 | 2 |"));
  EXPECT_THAT(text, HasSubstr("(images/routing/sample.svg)"));
  EXPECT_THAT(text, HasSubstr("not demanded"));
  EXPECT_EQ(text, sample_results().markdown("images/routing"));
}

TEST(RoutingResults, PlotsHaveALinePerPolicy) {
  const RoutingResults results = sample_results();
  const std::string svg = routing_plots(*results.runs().front());
  EXPECT_THAT(svg, HasSubstr("Round-robin"));
  EXPECT_THAT(svg, HasSubstr("KV cache-aware"));
  EXPECT_THAT(svg, HasSubstr("TTFT p95, logarithmic"));
}

}  // namespace
}  // namespace kvist::laboratory
