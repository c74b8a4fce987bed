// What is told of requests: histograms, lines of the access log, spans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>

#include "kvist/base/json.h"
#include "kvist/gateway/access_line.h"
#include "kvist/gateway/otlp_json.h"
#include "kvist/gateway/request_times.h"
#include "kvist/gateway/span_exporter.h"

namespace kvist::gateway::request_report_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

TimePoint at(int ms) {
  return TimePoint(std::chrono::seconds(100) + milliseconds(ms));
}

RequestReport report_of_a_retried_request() {
  RequestReport report{.request_id = "req-1",
                       .method = "POST",
                       .path = "/v1/chat/completions",
                       .key = "alice",
                       .model = "m",
                       .arrived = at(0),
                       .asked = at(1),
                       .decided = at(2),
                       .first_token = at(40),
                       .ended = at(90),
                       .status = 200,
                       .outcome = "completed",
                       .prompt_tokens = 100,
                       .predicted_cached_tokens = 64,
                       .cached_tokens = 32,
                       .output_tokens = 7};
  report.attempts.push_back(
      {.worker = "w1", .began = at(2), .ended = at(10), .status = 503, .failure = "back_pressure", .span = {0x11}});
  report.attempts.push_back({.worker = "w2", .began = at(11), .ended = at(90), .status = 200, .span = {0x22}});
  report.trace = telemetry::TraceContext{.trace = {.high = 1, .low = 2}, .span = {3}, .sampled = true};
  report.parent = {4};
  report.routing = {5};
  return report;
}

TEST(TimeHistogram, ValuesFallIntoTheBucketOfTheFirstBoundThatIsNotBelowThem) {
  const auto bucket_of = [](Duration time) {
    LatencyHistogram histogram;
    histogram.observe(time);
    const auto counts = histogram.counts();
    return std::ranges::find(counts, 1U) - counts.begin();
  };
  const auto& bounds = LatencyHistogram::bounds();
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const Duration bound(kLatencyBounds[i]);
    EXPECT_EQ(bucket_of(bound), static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(bucket_of(bound + Duration(1)), static_cast<std::ptrdiff_t>(i + 1));
    EXPECT_EQ(bounds[i], to_seconds(bound));
  }
  EXPECT_EQ(bucket_of(Duration(0)), 0);
  EXPECT_EQ(bucket_of(Duration(-5)), 0);
  EXPECT_EQ(bucket_of(Duration::max()), static_cast<std::ptrdiff_t>(bounds.size()));
}

TEST(RequestTimesTable, CountsByWorkerAndClassAndBoundsTheClasses) {
  RequestTimesTable table;
  table.of("gold", WorkerId(1)).inter_token.observe(milliseconds(3));
  RequestTimes* const kept = &table.of("gold", WorkerId(1));
  for (int i = 0; i < 100; ++i) table.of("class-" + std::to_string(i), WorkerId(0)).routing.observe(milliseconds(1));
  EXPECT_EQ(&table.of("gold", WorkerId(1)), kept) << "a pointer to it stays good";
  RequestTimesTable sum;
  sum.add(table);
  sum.add(table);
  std::size_t series = 0;
  std::uint64_t others = 0;
  sum.for_each([&](const std::string& key_class, WorkerId worker, const RequestTimes& times) {
    ++series;
    const auto counts = times.routing.counts();
    if (key_class == RequestTimesTable::kOtherClasses)
      others = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    if (key_class == "gold") {
      EXPECT_EQ(worker, WorkerId(1));
      EXPECT_EQ(times.inter_token.sum_seconds(), 0.006);
    }
  });
  EXPECT_EQ(series, RequestTimesTable::kMostClasses + 1);
  EXPECT_EQ(others, 2 * (100 - (RequestTimesTable::kMostClasses - 1)));
}

TEST(AccessLine, AsTextHasEachFieldOnce) {
  EXPECT_EQ(access_line(report_of_a_retried_request(), spec::LogFormat::kText, 1'795'000'000.0625),
            "2026-11-18T11:06:40.062Z access request_id=req-1 key=alice method=POST path=/v1/chat/completions model=m "
            "status=200 outcome=completed worker=w2 prompt_tokens=100 predicted_cached_tokens=64 cached_tokens=32 "
            "output_tokens=7 retries=w1:back_pressure ttft_ms=40 duration_ms=90 "
            "trace_id=00000000000000010000000000000002\n");
}

TEST(AccessLine, NoClientCanForgeALineOrAField) {
  RequestReport report = report_of_a_retried_request();
  report.request_id = "a outcome=completed";
  report.path = "/x\n2026 access \"\x1b[2J";
  const std::string text = access_line(report, spec::LogFormat::kText, 0);
  EXPECT_THAT(text, HasSubstr(R"(request_id="a outcome=completed" )"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  JsonDocument document;
  const std::string line = access_line(report, spec::LogFormat::kJson, 0);
  const auto json = document.parse_object(line);
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->require_string("path").value(), report.path);
}

TEST(SpanExporter, PausesGrowFromTheIntervalToTheLongest) {
  using std::chrono::seconds;
  EXPECT_EQ(SpanExporter::pause_after(seconds(0), seconds(1)), seconds(1));
  EXPECT_EQ(SpanExporter::pause_after(seconds(1), seconds(1)), seconds(2));
  EXPECT_EQ(SpanExporter::pause_after(seconds(20), seconds(1)), SpanExporter::kLongestPause);
  for (const int last : {0, 60, 120}) EXPECT_EQ(SpanExporter::pause_after(seconds(last), seconds(60)), seconds(60));
}

TEST(OtlpJson, TheSpansOfARequestAreATree) {
  const auto report = std::make_shared<const RequestReport>(report_of_a_retried_request());
  const std::string text =
      otlp_json({.service_name = "kvist-gateway", .instance = "i", .clock_unix_s = 1'000}, std::span(&report, 1));
  EXPECT_THAT(text,
              HasSubstr(R"("spanId":"0000000000000003","parentSpanId":"0000000000000004","name":"POST /v1/chat)"));
  EXPECT_THAT(text, HasSubstr(R"("spanId":"0000000000000005","parentSpanId":"0000000000000003","name":"route")"));
  EXPECT_THAT(text, HasSubstr(R"("spanId":"0000000000000011","parentSpanId":"0000000000000003","name":"attempt w1")"));
  EXPECT_THAT(text, HasSubstr(R"("spanId":"0000000000000022","parentSpanId":"0000000000000003","name":"attempt w2")"));
  EXPECT_THAT(text, HasSubstr(R"("startTimeUnixNano":"1100000000000","endTimeUnixNano":"1100090000000")"));
  EXPECT_THAT(text, HasSubstr(R"({"key":"error.type","value":{"stringValue":"back_pressure"}})"));
}

}  // namespace
}  // namespace kvist::gateway::request_report_test
