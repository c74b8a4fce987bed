#include "kvist/analysis/merged_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/sample_run.h"

namespace kvist::analysis::merged_runs_test {
namespace {

using spec::RoutingMode;
using testing::ElementsAre;
using testing::HasSubstr;

MergedPart part(const std::string& name, std::vector<RoutingMode> modes, std::vector<std::uint64_t> seeds) {
  MergedPart merged{.name = name, .head = {}, .sweep = sample_sweep(), .levels = {}};
  merged.sweep.modes = std::move(modes);
  merged.sweep.levels = {40};
  std::int64_t id = 100;
  for (const RoutingMode mode : merged.sweep.modes) {
    std::uint32_t repetition = 0;
    for (const std::uint64_t seed : seeds) {
      merged.levels.push_back(
          {.id = id++, .position = 0, .mode = mode, .concurrency = 40, .repetition = repetition++, .seed = seed});
    }
  }
  return merged;
}

std::vector<std::uint32_t> repetitions(const MergedRun& run) {
  std::vector<std::uint32_t> all;
  for (const MergedLevel& level : run.levels) all.push_back(level.repetition);
  return all;
}

TEST(MergedRuns, ArmsWithTheSameSeedsBecomePairs) {
  const std::vector<MergedPart> parts = {part("a", {RoutingMode::kRoundRobin}, {1, 2}),
                                         part("b", {RoutingMode::kKv}, {2, 1})};
  const auto run = merge_runs(parts);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_THAT(run->sweep.modes, ElementsAre(RoutingMode::kRoundRobin, RoutingMode::kKv));
  EXPECT_EQ(run->sweep.method.repetitions, 2U);
  EXPECT_THAT(repetitions(*run), ElementsAre(0, 1, 1, 0));
}

TEST(MergedRuns, OtherSeedsAreFurtherRepetitions) {
  std::vector<MergedPart> parts = {part("a", {RoutingMode::kRoundRobin, RoutingMode::kKv}, {1}),
                                   part("b", {RoutingMode::kRoundRobin, RoutingMode::kKv}, {5})};
  parts[1].sweep.workload.seed = 77;
  const auto run = merge_runs(parts);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_THAT(repetitions(*run), ElementsAre(0, 0, 1, 1));
}

TEST(MergedRuns, ItsPartsAreNamedWithWhatTheyGave) {
  std::vector<MergedPart> parts = {part("out/a", {RoutingMode::kRoundRobin}, {1, 2}),
                                   part("out/b", {RoutingMode::kKv, RoutingMode::kRandom}, {3})};
  parts[0].head.name = "first";
  parts[0].head.started_utc = "2026-03-01T10:00:00Z";
  parts[1].levels.push_back({.id = 200, .mode = RoutingMode::kKv, .concurrency = 50, .repetition = 0, .seed = 9});
  parts[1].levels.push_back({.id = 201, .mode = RoutingMode::kKv, .concurrency = 50, .repetition = 1, .seed = 8});
  const std::vector<results::RunSource> sources = sources_of(parts);
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[0], (results::RunSource{.place = "out/a",
                                            .name = "first",
                                            .started_utc = "2026-03-01T10:00:00Z",
                                            .levels = "round_robin at 40, 2 times each"}));
  EXPECT_EQ(sources[1].levels, "kv at 40, 50, 1 to 2 times; random at 40");
  // A part that was merged itself has sources of its own.
  std::vector<MergedPart> again = {part("out/both", {RoutingMode::kKv}, {1}), parts[0]};
  again[0].head.sources = sources;
  const std::vector<results::RunSource> all = sources_of(again);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1], sources[1]);
  EXPECT_EQ(all[2].place, "out/a");
}

TEST(MergedRuns, WhatWasNotMeasuredAlikeIsRefused) {
  std::vector<MergedPart> parts = {part("a", {RoutingMode::kRoundRobin}, {1}), part("b", {RoutingMode::kKv}, {1})};
  parts[1].sweep.method.warmup = std::chrono::seconds(1);
  EXPECT_THAT(merge_runs(parts).error().message, HasSubstr("their method differs"));
  parts[1].sweep = parts[0].sweep;
  parts[1].head.simulated = true;
  EXPECT_THAT(merge_runs(parts).error().message, HasSubstr("a is live, b is simulated"));
  const std::vector<MergedPart> twice = {part("a", {RoutingMode::kKv}, {1}), part("b", {RoutingMode::kKv}, {1})};
  EXPECT_THAT(merge_runs(twice).error().message, HasSubstr("was measured with seed 1 before"));
  EXPECT_FALSE(merge_runs({}).has_value());
}

}  // namespace
}  // namespace kvist::analysis::merged_runs_test
