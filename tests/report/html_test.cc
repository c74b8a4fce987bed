#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "kvist/report/document.h"
#include "kvist/report/report.h"
#include "kvist/report/svg_plot.h"
#include "report/sample_run.h"

namespace kvist::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What is wrong with the nesting of tags; empty when every tag is closed in order.
std::string nesting_error(const std::string& html) {
  const std::set<std::string> without_end = {"meta", "!DOCTYPE", "br"};
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) return "a tag does not end";
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name =
        tag.substr(tag.starts_with('/') ? 1 : 0, tag.find_first_of(" /", 1) - (tag.starts_with('/') ? 1 : 0));
    if (tag.ends_with('/') || without_end.contains(name)) continue;
    if (!tag.starts_with('/')) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> closes " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back() + " stays open";
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Html, IsOneWellFormedPageWithoutOutsideResources) {
  const std::string html = render_html(sample_run(), sample_sweep());
  EXPECT_EQ(nesting_error(html), "");
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>\n"));
  for (const char* loads : {"http://", "https://", "src=", "href=", "@import", "url(", "<script", "<link"}) {
    EXPECT_THAT(html, Not(HasSubstr(loads)));
  }
}

TEST(Html, HasTheSameTablesAndAPlotPerFigureAndLevel) {
  const std::string html = render_html(sample_run(), sample_sweep());
  const std::string markdown = render_markdown(sample_run(), sample_sweep());
  EXPECT_EQ(count_of(html, "<table>"), count_of(markdown, "\n|:-"));
  EXPECT_EQ(count_of(html, "<figure class=\"plot\">"), 6U + 2U);
  for (const char* title :
       {"Time to first token", "Time per output token", "End-to-end latency", "Throughput", "KV hit rate",
        "TTFT distribution at concurrency 40", "TTFT distribution at concurrency 50"}) {
    EXPECT_THAT(html, HasSubstr("<figcaption>" + std::string(title) + "</figcaption>"));
  }
  EXPECT_THAT(html, HasSubstr("<title>Round-robin p50, concurrency 40: 250.00 ms</title>"));
  EXPECT_THAT(html, HasSubstr("<title>KV cache-aware: p95 = 185.50 ms</title>"));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
}

TEST(Html, EscapesTextFromOutside) {
  results::RunRecord run = sample_run();
  run.name = "</title><script>alert(1)</script>";
  run.machine = {{"<b>cpu", "\"quoted\" & 'more'"}};
  run.levels[0].remarks = {"<img src=x onerror=alert(2)> \xff\x01"};
  run.levels[0].workers[0].worker = "<i>worker";
  spec::SweepSpec sweep = sample_sweep();
  sweep.deployment.workers[0].model = "<model>";
  const std::string html = render_html(run, sweep);
  EXPECT_EQ(nesting_error(html), "");
  for (const char* raw : {"<script", "<img", "<b>", "<i>", "<model>"}) EXPECT_THAT(html, Not(HasSubstr(raw)));
  EXPECT_THAT(html, HasSubstr("&lt;/title&gt;&lt;script&gt;alert(1)"));
  EXPECT_THAT(html, HasSubstr("&quot;quoted&quot; &amp; &#39;more&#39;"));
  EXPECT_THAT(html, HasSubstr("onerror=alert(2)&gt; \xEF\xBF\xBD\xEF\xBF\xBD"));
}

TEST(SvgPlot, AMissingValueInterruptsTheLine) {
  Plot plot{.title = "A & B", .x_title = "x", .y_title = "y", .x_kind = AxisScale::Kind::kLevels, .series = {}};
  plot.series.push_back(
      {.name = "s<1>", .colour = 1, .dashed = true, .points = {{1, 10, "one"}, {2, {}, "two"}, {3, 30, "<3>"}}});
  const std::string svg = render_svg(plot);
  EXPECT_EQ(nesting_error(svg), "");
  EXPECT_THAT(svg, HasSubstr("aria-label=\"A &amp; B\""));
  EXPECT_THAT(svg, HasSubstr("s&lt;1&gt;"));
  EXPECT_EQ(count_of(svg, "<circle class=\"mark s1 hollow\" cx="), 1U + 2U);  // the legend's and two points
  const std::size_t line = svg.find("class=\"line s1 dashed\" d=\"M", svg.find("role=\"img\""));
  ASSERT_NE(line, std::string::npos);
  const std::string path = svg.substr(line, svg.find("/>", line) - line);
  EXPECT_EQ(count_of(path, "M"), 2U);
  EXPECT_EQ(count_of(path, "L"), 0U);
}

TEST(AxisScale, LinearAxesBeginAtZeroAndEndRound) {
  const AxisScale scale(AxisScale::Kind::kLinearFromZero, {3, 87, 42});
  EXPECT_THAT(scale.ticks(), ::testing::ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_DOUBLE_EQ(scale.position(0), 0);
  EXPECT_DOUBLE_EQ(scale.position(50), 0.5);
  EXPECT_DOUBLE_EQ(AxisScale(AxisScale::Kind::kLinearFromZero, {}).position(0.5), 0.5);
  EXPECT_DOUBLE_EQ(AxisScale(AxisScale::Kind::kLinearFromZero, {0, 0}).position(0), 0);
}

TEST(AxisScale, LogarithmicAxesEncloseTheValuesInOneTwoFive) {
  const AxisScale scale(AxisScale::Kind::kLogarithmic, {30, 400, 0, -1});
  EXPECT_THAT(scale.ticks(), ::testing::ElementsAre(20, 50, 100, 200, 500));
  EXPECT_DOUBLE_EQ(scale.position(100), 0.5);
  EXPECT_DOUBLE_EQ(scale.position(-5), 0);
  for (const double only : {1.0, 7.0, 1e-6, 4e12}) {
    const AxisScale narrow(AxisScale::Kind::kLogarithmic, {only});
    ASSERT_GE(narrow.ticks().size(), 2U) << only;
    EXPECT_LE(narrow.ticks().front(), only);
    EXPECT_GE(narrow.ticks().back(), only * (1 - 1e-12));
  }
  EXPECT_LE(AxisScale(AxisScale::Kind::kLogarithmic, {1e-6, 4e12}).ticks().size(), 40U);
}

TEST(Terminal, TableIsAlignedAndCompact) {
  results::RunRecord run = sample_run();
  for (workload::Snapshot& snapshot : run.levels[1].snapshots) snapshot.tpot_p50_ms = 2.534;
  run.levels.pop_back();
  run.levels[2].turns[0].outcome = workload::TurnOutcome::kFailed;
  spec::SweepSpec sweep = sample_sweep();
  for (spec::WorkerSpec& worker : sweep.deployment.workers) worker.time_scale = 10;
  EXPECT_EQ(
      render_terminal(run, sweep),
      "Concurrency  Mode                    TTFT p50  TTFT p95  TPOT p50  Tokens/s  Hit rate  Prefilled  p50 "
      "improvement  p95 improvement\n"
      "-----------  ----------------------  --------  --------  --------  --------  --------  ---------  "
      "---------------  ---------------\n"
      "         40  round_robin                250ms     650ms      26ms    1550.0     60.0%      4,000\n"
      "             kv                         200ms     650ms    2.53ms    1550.0     90.0%      1,000            "
      "20.0%             0.0%\n"
      "         50  round_robin (excluded)     300ms     650ms      26ms    1550.0     60.0%      4,000\n"
      "Times as measured, engines 10 times faster than their model: x 10 for model time.\n");
}

TEST(WriteReport, WritesThreeFilesIntoTheFolder) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "kvist-write-report";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto files = write_report(sample_run(), sample_sweep(), folder.string());
  ASSERT_TRUE(files.has_value()) << files.error().message;
  std::stringstream html;
  html << std::ifstream(files->html).rdbuf();
  EXPECT_EQ(html.str(), render_html(sample_run(), sample_sweep()));
  EXPECT_TRUE(std::filesystem::exists(files->markdown));
  EXPECT_TRUE(std::filesystem::exists(files->json));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator{}), 3);
  std::filesystem::remove_all(folder);

  const auto nowhere = write_report(sample_run(), sample_sweep(), (folder / "missing").string());
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_THAT(nowhere.error().message, HasSubstr("missing/report.md: cannot be written: No such file"));
}

}  // namespace
}  // namespace kvist::report
