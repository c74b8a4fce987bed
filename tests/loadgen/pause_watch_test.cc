#include "kvist/loadgen/pause_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace kvist::loadgen::pause_watch_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Duration kPeriod = milliseconds(4);

std::uint64_t count_above(const WatchedPauses& watched, Duration least) {
  std::uint64_t count = 0;
  for (const auto& [at_most, counted] : watched.late.buckets()) count += at_most > least ? counted : 0;
  return count;
}

TEST(PauseWatch, AWakeUpInTimeIsNoPause) {
  WatchedPauses watched;
  EXPECT_EQ(record_wake_up(watched, microseconds(60), std::nullopt, kPeriod), 0U);
  EXPECT_EQ(record_wake_up(watched, microseconds(-3), std::nullopt, kPeriod), 0U);
  EXPECT_EQ(watched.late.count(), 2U);
  EXPECT_EQ(watched.pauses, 0U);
}

TEST(PauseWatch, DeadlinesWithinAPauseFoundWhatWasLeftOfIt) {
  WatchedPauses watched;
  EXPECT_EQ(record_wake_up(watched, milliseconds(10), std::nullopt, kPeriod), 2U) << "10 ms; missed those of 6 and 2";
  EXPECT_EQ(watched.late.count(), 3U);
  EXPECT_EQ(watched.pauses, 1U);
  EXPECT_EQ(watched.late.max(), milliseconds(10));
  EXPECT_EQ(count_above(watched, microseconds(6'400)), 1U);
  EXPECT_EQ(count_above(watched, microseconds(2'200)), 2U);
  EXPECT_EQ(count_above(watched, kLeastPause), 3U);
}

TEST(PauseWatch, WhatNoHypervisorTookIsNoPauseOfTheProcessor) {
  WatchedPauses watched;
  EXPECT_EQ(record_wake_up(watched, milliseconds(250), milliseconds(10), kPeriod), 62U) << "stopped by a signal";
  EXPECT_EQ(watched.late.count(), 63U) << "a deadline each 4 ms, whatever happened";
  EXPECT_EQ(watched.late.max(), milliseconds(10));
  EXPECT_EQ(count_above(watched, kLeastPause), 4U) << "the wake-up, and the deadlines 10, 6 and 2 ms before it";
}

TEST(PauseWatch, TheMissedDeadlinesOfOneWakeUpAreBounded) {
  WatchedPauses watched;
  const std::uint64_t missed = record_wake_up(watched, std::chrono::hours(10), std::nullopt, kPeriod);
  EXPECT_LT(missed, 100'000U);
  EXPECT_EQ(watched.late.count(), missed + 1);
}

TEST(PauseWatch, WatchesFromStartToStop) {
  PauseWatch watch;
  EXPECT_FALSE(watch.pauses().has_value());
  watch.start();
  while (watch.pauses()->late.count() < 40) std::this_thread::sleep_for(milliseconds(1));
  watch.stop();
  const std::uint64_t seen = watch.pauses()->late.count();
  EXPECT_GE(seen, 40U);
  EXPECT_GT(watch.pauses()->cpu_seconds, 0);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(watch.pauses()->late.count(), seen);
  watch.start();
  watch.stop();
  EXPECT_TRUE(watch.pauses().has_value());
}

}  // namespace
}  // namespace kvist::loadgen::pause_watch_test
