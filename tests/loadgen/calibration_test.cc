#include "kvist/loadgen/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kvist::loadgen::calibration_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CalibrationStep step(std::uint32_t streams, double error_ms, std::uint64_t failed = 0) {
  return {.streams = streams,
          .events_per_s = 50.0 * streams,
          .turns_per_s = static_cast<double>(streams),
          .ttft_error_p50_ms = 0.1,
          .ttft_error_p99_ms = error_ms,
          .itl_error_p50_ms = 0.05,
          .itl_error_p99_ms = error_ms / 2,
          .server_late_p99_ms = 0.25,
          .cpu_share = 0.5,
          .turns = 100,
          .failed = failed};
}

/// The numbers that are tried on a machine that holds up to `capacity` streams.
std::vector<std::uint32_t> tried(std::uint32_t capacity, std::uint32_t most, Calibration& calibration) {
  std::vector<std::uint32_t> numbers;
  while (const auto streams = next_streams(calibration, most)) {
    numbers.push_back(*streams);
    calibration.add(step(*streams, *streams <= capacity ? 0.5 : 3));
    if (numbers.size() > 50) break;
  }
  return numbers;
}

TEST(Calibration, DoublesUntilItIsTooMuchAndThenClosesIn) {
  Calibration calibration;
  EXPECT_THAT(tried(330, 10'000, calibration), ElementsAre(25, 50, 100, 200, 400, 283, 336));
  ASSERT_NE(calibration.limit(), nullptr);
  EXPECT_EQ(calibration.limit()->streams, 283U);
}

TEST(Calibration, EndsAtTheMostThatMayBeTried) {
  Calibration calibration;
  EXPECT_THAT(tried(1'000'000, 120, calibration), ElementsAre(25, 50, 100, 120));
  EXPECT_EQ(calibration.limit()->streams, 120U);
}

TEST(Calibration, LooksBelowItsFirstNumber) {
  Calibration few;
  EXPECT_THAT(tried(2, 10'000, few), ElementsAre(25, 5, 1, 2, 3));
  EXPECT_EQ(few.limit()->streams, 2U);
  Calibration none;
  EXPECT_THAT(tried(0, 10'000, none), ElementsAre(25, 5, 1));
  EXPECT_EQ(none.limit(), nullptr);
}

TEST(Calibration, WhatHoldsAboveANumberThatDoesNotIsChance) {
  Calibration calibration;
  for (const auto& each : {step(50, 0.5), step(200, 0.5), step(100, 3)}) calibration.add(each);
  EXPECT_EQ(calibration.limit()->streams, 50U);
  calibration.add(step(100, 4));
  EXPECT_EQ(calibration.limit()->streams, 50U);
  calibration.add(step(100, 0.9));  // measured again
  EXPECT_EQ(calibration.limit()->streams, 200U);
  calibration.add(step(200, 0.1, 1));
  EXPECT_EQ(calibration.limit()->streams, 200U) << "the better measurement counts";
  EXPECT_FALSE(calibration.holds(step(7, 0.1, 1))) << "a failed turn";
  EXPECT_FALSE(calibration.holds(step(7, 1))) << "not below the limit";
}

Calibration sample() {
  Calibration calibration{.kvist_version = "1.2",
                          .measured_utc = "2026-03-01T10:00:00Z",
                          .machine = {{"cores", "2"}, {"kernel", "Linux 6"}, {"processor", "a \"fast\" one"}},
                          .first_ms = 50,
                          .gap_ms = 12.5,
                          .tokens = 40,
                          .error_limit_ms = 1,
                          .steps = {}};
  for (const auto& each : {step(25, 0.5), step(50, 0.75), step(100, 3, 2)}) calibration.add(each);
  return calibration;
}

TEST(Calibration, IsReadAsItWasWritten) {
  const Calibration calibration = sample();
  const auto read = parse_calibration(calibration_json(calibration), "c.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->kvist_version, "1.2");
  EXPECT_EQ(read->measured_utc, calibration.measured_utc);
  EXPECT_EQ(read->machine, calibration.machine);
  EXPECT_EQ(read->gap_ms, 12.5);
  EXPECT_EQ(read->tokens, 40U);
  EXPECT_EQ(read->steps, calibration.steps);
}

TEST(Calibration, RefusesWhatIsNoCalibration) {
  EXPECT_THAT(parse_calibration("{", "c.json").error().message, HasSubstr("c.json"));
  EXPECT_THAT(parse_calibration(R"({"format": 2})", "c.json").error().message, HasSubstr("format 2 of another kvist"));
  std::string text = calibration_json(sample());
  text.replace(text.find("\"events_per_s\": 1250"), 20, "\"events_per_s\": -125");
  EXPECT_THAT(parse_calibration(text, "c.json").error().message, HasSubstr("events_per_s"));
}

TEST(Calibration, SaysInWhichWayALoadIsBeyondIt) {
  const Calibration calibration = sample();
  EXPECT_EQ(beyond_limit(calibration, {}), std::nullopt);
  EXPECT_EQ(beyond_limit(calibration, {.streams = 50, .turns_per_s = 50, .events_per_s = 2'500}), std::nullopt);
  EXPECT_EQ(
      beyond_limit(calibration, {.streams = 51, .turns_per_s = 50, .events_per_s = 2'600}),
      "beyond what this machine was calibrated for with an error below 1 ms, which is in parentheses: 51 streams at "
      "once (50), 2600 events/s (2500)");
  Calibration none;
  none.add(step(1, 3));
  EXPECT_THAT(beyond_limit(none, {.streams = 1}).value_or(""), HasSubstr("1 streams at once (0)"));
}

TEST(Calibration, IsOfAMachineWithItsProcessorAndCores) {
  const Calibration calibration = sample();
  EXPECT_TRUE(same_machine(calibration, {{"cores", "2"}, {"kernel", "Linux 7"}, {"processor", "a \"fast\" one"}}));
  EXPECT_FALSE(same_machine(calibration, {{"cores", "4"}, {"processor", "a \"fast\" one"}}));
  EXPECT_FALSE(same_machine(calibration, {{"cores", "2"}}));
}

}  // namespace
}  // namespace kvist::loadgen::calibration_test
