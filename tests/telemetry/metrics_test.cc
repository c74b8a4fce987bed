#include "kvist/telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kvist/telemetry/exposition.h"

namespace kvist::telemetry::metrics_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Expose, NamesEachFamilyOnceWithAllItsSamples) {
  const std::string text = expose([](MetricsPage& page) {
    page.counter("requests_total", "Requests.", 1, {{"reason", "stop"}});
    page.gauge("running", "Running.", 2.5);
    page.counter("requests_total", "Requests.", 3, {{"reason", "length"}});
  });
  EXPECT_EQ(count(text, "# TYPE requests_total counter\n"), 1U);
  EXPECT_EQ(count(text, "# HELP requests_total Requests.\n"), 1U);
  EXPECT_EQ(count(text, "# TYPE running gauge\n"), 1U);
  const auto page = MetricSamples::parse(text);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->sum("requests_total"), 4);
  EXPECT_EQ(page->sum("running"), 2.5);
  ASSERT_EQ(page->samples().size(), 3U);
  EXPECT_THAT(page->samples()[1].labels, ElementsAre(Pair("reason", "length")));
}

TEST(Expose, WritesSummariesWithQuantilesSumAndCount) {
  const std::string text = expose([](MetricsPage& page) {
    page.summary("ttft_seconds", "Time to first token.", {{0.5, 1.5}, {0.99, std::nan("")}}, 10, 12.25, {{"m", "x"}});
  });
  EXPECT_THAT(text, HasSubstr("# TYPE ttft_seconds summary\n"));
  const auto page = MetricSamples::parse(text);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->sum("ttft_seconds_count"), 10);
  EXPECT_EQ(page->sum("ttft_seconds_sum"), 12.25);
  bool median_seen = false;
  for (const auto& sample : page->samples()) {
    if (sample.name != "ttft_seconds" || sample.value != 1.5) continue;
    EXPECT_THAT(sample.labels, testing::Contains(Pair("quantile", "0.5")));
    median_seen = true;
  }
  EXPECT_TRUE(median_seen);
}

TEST(Expose, WritesHistogramsCumulatively) {
  const std::string text =
      expose([](MetricsPage& page) { page.histogram("latency_seconds", "Latency.", {0.1, 1}, {5, 3, 2}, 7.5); });
  const auto page = MetricSamples::parse(text);
  ASSERT_TRUE(page) << page.error().message;
  std::vector<std::pair<std::string, double>> buckets;
  for (const auto& sample : page->samples()) {
    if (sample.name == "latency_seconds_bucket") buckets.emplace_back(sample.labels.at(0).second, sample.value);
  }
  EXPECT_THAT(buckets, ElementsAre(Pair("0.1", 5), Pair("1", 8), Pair("+Inf", 10)));
  EXPECT_EQ(page->sum("latency_seconds_count"), 10);
}

TEST(Expose, SurvivesHostileTextInLabelsAndHelp) {
  const std::string value = "a\"b\\c\nd},e=\"";
  const std::string text =
      expose([&](MetricsPage& page) { page.gauge("g", "line one\nline_two 5\r", 1, {{"name", value}}); });
  const auto page = MetricSamples::parse(text);
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->samples().size(), 1U);
  EXPECT_EQ(page->label("g", "name"), value);
}

TEST(Expose, KeepsWholeCountersExactAndTimesToTheMicrosecond) {
  const double largest_whole = 9007199254740991;  // 2^53 - 1
  const double time = 1763694000.123456;
  const auto page = MetricSamples::parse(expose([&](MetricsPage& p) {
    p.counter("tokens_total", "h", largest_whole);
    p.gauge("start_time_seconds", "h", time);
  }));
  ASSERT_TRUE(page);
  EXPECT_EQ(page->sum("tokens_total"), largest_whole);
  EXPECT_NEAR(*page->sum("start_time_seconds"), time, 1e-6);
}

TEST(Expose, AnEmptyPageIsEmpty) {
  EXPECT_EQ(expose([](MetricsPage&) {}), "");
}

TEST(ExposeDeathTest, StopsAtAFamilyOfTwoTypes) {
  EXPECT_DEATH(static_cast<void>(expose([](MetricsPage& page) {
                 page.gauge("x", "h", 1);
                 page.counter("x", "h", 1);
               })),
               "another type");
}

}  // namespace
}  // namespace kvist::telemetry::metrics_test
