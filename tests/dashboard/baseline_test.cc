// The line of reference: published files, interpolation between levels, other time scales.
#include "kvist/dashboard/baseline.h"

#include <gtest/gtest.h>

#include <string>

#include "kvist/base/json.h"

namespace kvist::dashboard::baseline_test {
namespace {

const std::string kPublished = KVIST_SOURCE_DIR "/data/reference/trtllm-3xh200-rr-vs-kv-40-120.json";

Baseline published(std::optional<double> time_scale = {}) {
  auto baseline = load_baseline(kPublished, time_scale);
  if (!baseline) ADD_FAILURE() << baseline.error().message;
  return baseline.value_or(Baseline{});
}
const BaselineMode& mode_of(const Baseline&&, spec::RoutingMode) = delete;  // it would refer to what is gone
const BaselineMode& mode_of(const Baseline& baseline, spec::RoutingMode mode) {
  for (const BaselineMode& one : baseline.modes)
    if (one.mode == mode) return one;
  ADD_FAILURE() << "the mode is missing";
  return baseline.modes.front();
}
double figure(const BaselinePoint& point, Live which) {
  return point.figures[index_of(which)].value_or(-1);
}

TEST(Baseline, ALevelThatWasMeasuredIsAsThePublishedFileHasIt) {
  const Baseline baseline = published();
  EXPECT_EQ(baseline.kind, BaselineKind::kReference);
  EXPECT_EQ(baseline.default_mode(), spec::RoutingMode::kRoundRobin);
  const auto at = Baseline::at(mode_of(baseline, spec::RoutingMode::kRoundRobin), 40);
  ASSERT_TRUE(at);
  EXPECT_FALSE(at->interpolated());
  EXPECT_DOUBLE_EQ(figure(*at, Live::kTtftP50), 271.4);
  EXPECT_DOUBLE_EQ(figure(*at, Live::kOutputTokens), 1591.052529);
  EXPECT_DOUBLE_EQ(figure(*at, Live::kHitRatePct), 99.7);
  EXPECT_FALSE(at->figures[index_of(Live::kItlP50)]) << "it was not published";
  const auto routed = Baseline::at(mode_of(baseline, spec::RoutingMode::kKv), 40);
  EXPECT_DOUBLE_EQ(figure(*routed, Live::kTtftP50), 222.7);
}

TEST(Baseline, BetweenTwoLevelsItIsInterpolatedAndSaysSo) {
  const Baseline baseline = published();
  const auto at = Baseline::at(mode_of(baseline, spec::RoutingMode::kRoundRobin), 42);
  ASSERT_TRUE(at);
  EXPECT_TRUE(at->interpolated());
  EXPECT_EQ(at->below, 40U);
  EXPECT_EQ(at->above, 50U);
  EXPECT_NEAR(figure(*at, Live::kTtftP50), 271.4 + (0.2 * (255.5 - 271.4)), 1e-9);
}

TEST(Baseline, OutsideOfTheLevelsNothingIsKnown) {
  const Baseline baseline = published();
  const BaselineMode& mode = mode_of(baseline, spec::RoutingMode::kKv);
  EXPECT_FALSE(Baseline::at(mode, 39));
  EXPECT_FALSE(Baseline::at(mode, 121));
}

TEST(Baseline, AFigureThatOneOfTheLevelsLacksIsUnknownBetweenThem) {
  BaselineMode mode;
  mode.levels.push_back({.concurrency = 10, .figures = {}});
  mode.levels.push_back({.concurrency = 20, .figures = {}});
  mode.levels[0].figures[index_of(Live::kTtftP50)] = 100;
  mode.levels[0].figures[index_of(Live::kTtftP95)] = 200;
  mode.levels[1].figures[index_of(Live::kTtftP50)] = 300;
  const auto at = Baseline::at(mode, 15);
  ASSERT_TRUE(at);
  EXPECT_DOUBLE_EQ(figure(*at, Live::kTtftP50), 200);
  EXPECT_FALSE(at->figures[index_of(Live::kTtftP95)]);
}

TEST(Baseline, WorkersThatRunFasterThanTheOnesThatWereMeasuredHaveShorterTimesAndHigherRates) {
  const Baseline baseline = published(2.0);
  EXPECT_DOUBLE_EQ(baseline.time_factor, 0.5);
  const auto at = Baseline::at(mode_of(baseline, spec::RoutingMode::kRoundRobin), 40);
  EXPECT_DOUBLE_EQ(figure(*at, Live::kTtftP50), 271.4 / 2);
  EXPECT_DOUBLE_EQ(figure(*at, Live::kOutputTokens), 1591.052529 * 2);
  EXPECT_DOUBLE_EQ(figure(*at, Live::kHitRatePct), 99.7);
}

TEST(Baseline, AllPublishedFilesWithFiguresAreTaken) {
  for (const char* const name : {"trtllm-3xh200-kv-160-200", "vllm-1xh200-rr-50-120", "vllm-eagle3-1xh200-rr-50-160"}) {
    const auto baseline =
        load_baseline(std::string(KVIST_SOURCE_DIR "/data/reference/") + name + ".json", std::nullopt);
    ASSERT_TRUE(baseline) << baseline.error().message;
    JsonDocument document;
    EXPECT_TRUE(document.parse_object(baseline_json(&*baseline))) << name;
  }
}

TEST(Baseline, WhatIsNoBaselineIsRefusedWithItsName) {
  const auto missing = load_baseline("/nowhere/at/all.json", std::nullopt);
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().message.contains("/nowhere/at/all.json")) << missing.error().message;
  EXPECT_FALSE(load_baseline("/nowhere/at/all", std::nullopt));
  EXPECT_EQ(baseline_json(nullptr), R"({"type":"baseline","baseline":null})");
}

}  // namespace
}  // namespace kvist::dashboard::baseline_test
