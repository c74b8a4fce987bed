#include "kvist/telemetry/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvist::telemetry::exposition_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

MetricSamples parse(std::string_view text) {
  auto page = MetricSamples::parse(text);
  EXPECT_TRUE(page) << page.error().message;
  return page.value_or(MetricSamples());
}

TEST(Exposition, ReadsNamesLabelsAndValuesInOrder) {
  const MetricSamples page = parse(
      "# HELP vllm:num_requests_running Running.\n"
      "# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{model_name=\"m\"} 3.0\n"
      "\n"
      "process_start_time_seconds 1.75e9\r\n"
      "  last { a = \"1\" , b=\"2\", } +7 1700000000000");
  ASSERT_EQ(page.samples().size(), 3U);
  EXPECT_EQ(page.samples()[0].name, "vllm:num_requests_running");
  EXPECT_THAT(page.samples()[0].labels, ElementsAre(Pair("model_name", "m")));
  EXPECT_EQ(page.samples()[0].value, 3);
  EXPECT_EQ(page.samples()[1].value, 1.75e9);
  EXPECT_TRUE(page.samples()[1].labels.empty());
  EXPECT_THAT(page.samples()[2].labels, ElementsAre(Pair("a", "1"), Pair("b", "2")));
  EXPECT_EQ(page.samples()[2].value, 7);
}

TEST(Exposition, ReadsEscapesInLabelValues) {
  const MetricSamples page = parse(R"(m{path="C:\\dir",quote="\"x\"",line="a\nb",brace="},{ # "} 1)");
  EXPECT_THAT(page.samples()[0].labels, ElementsAre(Pair("path", "C:\\dir"), Pair("quote", "\"x\""),
                                                    Pair("line", "a\nb"), Pair("brace", "},{ # ")));
}

TEST(Exposition, ReadsValuesThatAreNoNumbers) {
  const MetricSamples page = parse("a NaN\nb +Inf\nc -Inf\nd Inf\n");
  EXPECT_TRUE(std::isnan(page.samples()[0].value));
  EXPECT_EQ(page.samples()[1].value, std::numeric_limits<double>::infinity());
  EXPECT_EQ(page.samples()[2].value, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(page.samples()[3].value, std::numeric_limits<double>::infinity());
}

TEST(Exposition, IgnoresTimestampsAndExemplars) {
  const MetricSamples page = parse("a 1 -5\nb 2 1700000000.123 # {trace=\"x\"} 0.5\nc 3 # {trace=\"x\"} 1\n# EOF\n");
  EXPECT_EQ(page.samples().size(), 3U);
}

TEST(Exposition, ASharesMeanIsOverLabelSets) {
  const MetricSamples page = parse("n{a=\"1\"} 0.75\nother 5\nn{a=\"2\"} 0.25\n");
  EXPECT_EQ(page.mean("n"), 0.5);
  EXPECT_EQ(page.mean("other"), 5);
  EXPECT_FALSE(page.mean("none").has_value());
}

TEST(Exposition, SumsOverLabelSets) {
  const MetricSamples page = parse("n{a=\"1\"} 1\nother 5\nn{a=\"2\"} 2\n");
  EXPECT_EQ(page.sum("n"), 3);
  EXPECT_EQ(page.sum("other"), 5);
  EXPECT_EQ(page.sum("absent"), std::nullopt);
  EXPECT_EQ(page.sum("n", "a", "2"), 2);
  EXPECT_EQ(page.sum("n", "a", "3"), std::nullopt);
  EXPECT_EQ(page.sum("n", "b", "2"), std::nullopt);
}

TEST(Exposition, FindsALabelOfTheFirstSample) {
  const MetricSamples page = parse("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1\n");
  EXPECT_EQ(page.label("vllm:cache_config_info", "num_gpu_blocks"), "1000");
  EXPECT_EQ(page.label("vllm:cache_config_info", "absent"), std::nullopt);
  EXPECT_EQ(page.label("absent", "block_size"), std::nullopt);
}

TEST(Exposition, AnEmptyPageHasNoSamples) {
  EXPECT_TRUE(parse("").samples().empty());
  EXPECT_TRUE(parse("\n\r\n# only a comment").samples().empty());
}

TEST(Exposition, RefusesMalformedLinesAndQuotesThem) {
  for (const char* line : {"<html>",         "1abc 2",     "a",         "a ",      "a x",       "a 1 x",
                           "a 1 2 3",        "a{ 1",       "a{b} 1",    "a{b=} 1", "a{b=\"} 1", "a{b=\"x\" c=\"y\"} 1",
                           "a{b=\"\\x\"} 1", "a{,} 1",     "a{b=\"x\"", "a ++1",   "a 1e999",   "a 0x10",
                           "a{b=\"x\\",      "{a=\"b\"} 1"}) {
    const auto page = MetricSamples::parse("good 1\n" + std::string(line) + "\n");
    ASSERT_FALSE(page) << line;
    EXPECT_EQ(page.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(page.error().message, HasSubstr("line 2"));
    EXPECT_THAT(page.error().message, HasSubstr(line));
  }
}

TEST(Exposition, QuotesOnlyTheBeginningOfALongLine) {
  const auto page = MetricSamples::parse(std::string(100'000, '!'));
  ASSERT_FALSE(page);
  EXPECT_LT(page.error().message.size(), 200U);
}

}  // namespace
}  // namespace kvist::telemetry::exposition_test
