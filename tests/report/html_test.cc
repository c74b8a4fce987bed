#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "analysis/sample_run.h"
#include "kvist/render/document.h"
#include "kvist/report/report.h"
#include "render/html_nesting.h"

namespace kvist::report::html_test {
namespace {

using analysis::sample_run;
using analysis::sample_sweep;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Html, IsOneWellFormedPageWithoutOutsideResources) {
  const std::string html = render_html(sample_run(), sample_sweep());
  EXPECT_EQ(render::nesting_error(html), "");
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>\n"));
  for (const char* loads : {"http://", "https://", "src=", "href=", "@import", "url(", "<script", "<link"}) {
    EXPECT_THAT(html, Not(HasSubstr(loads)));
  }
}

TEST(Html, HasTheSameTablesAndAPlotPerFigureAndLevel) {
  const std::string html = render_html(sample_run(), sample_sweep());
  const std::string markdown = render_markdown(sample_run(), sample_sweep());
  EXPECT_EQ(render::count_of(html, "<table>"), render::count_of(markdown, "\n|:-"));
  EXPECT_EQ(render::count_of(html, "<figure class=\"plot\">"), 7U + 2U + 2U);
  for (const char* title :
       {"Time to first token", "Time per output token", "Gaps between tokens (ITL)", "End-to-end latency", "Throughput",
        "KV hit rate", "TTFT distribution at concurrency 40", "TTFT distribution at concurrency 50"}) {
    EXPECT_THAT(html, HasSubstr("<figcaption>" + std::string(title) + "</figcaption>"));
  }
  EXPECT_THAT(html, HasSubstr("<title>Round-robin p50, concurrency 40: 245.00 ms</title>"));
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
  EXPECT_EQ(render::nesting_error(html), "");
  for (const char* raw : {"<script", "<img", "<b>", "<i>", "<model>"}) EXPECT_THAT(html, Not(HasSubstr(raw)));
  EXPECT_THAT(html, HasSubstr("&lt;/title&gt;&lt;script&gt;alert(1)"));
  EXPECT_THAT(html, HasSubstr("&quot;quoted&quot; &amp; &#39;more&#39;"));
  EXPECT_THAT(html, HasSubstr("onerror=alert(2)&gt; \xEF\xBF\xBD\xEF\xBF\xBD"));
}

TEST(Terminal, TableIsAlignedAndCompact) {
  results::RunRecord run = sample_run();
  run.levels.pop_back();
  run.levels[1].client.loop_delay_p99_ms = 50;
  run.levels[2].turns[0].outcome = workload::TurnOutcome::kFailed;
  spec::SweepSpec sweep = sample_sweep();
  for (spec::WorkerSpec& worker : sweep.deployment.workers) worker.time_scale = 10;
  EXPECT_EQ(
      render_terminal(run, sweep),
      "Concurrency  Mode                    TTFT p50  TTFT p95  TPOT p50  ITL p95  Output tokens/s  Cache hit rate  "
      "p50 gain  p95 gain\n"
      "-----------  ----------------------  --------  --------  --------  -------  ---------------  --------------  "
      "--------  --------\n"
      "         40  round_robin                245ms     286ms    30.0ms   40.0ms             1.33           60.0%\n"
      "             kv (client degraded)       145ms     186ms    30.0ms   40.0ms             1.33           90.0%  "
      "   40.8%     35.0%\n"
      "         50  round_robin (excluded)     250ms     286ms    30.0ms   40.0ms             1.20           60.0%\n"
      "Exact percentiles over all turns (95 % interval).\n"
      "Times as measured, engines 10 times faster than their model: x 10 for model time.\n"
      "The load generator disturbed its measurement at some levels: see \"Load generator health\" in the report.\n");
}

TEST(WriteReport, WritesItsFilesIntoTheFolder) {
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
  EXPECT_TRUE(std::filesystem::exists(files->levels));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator{}), 4);
  std::filesystem::remove_all(folder);

  const auto nowhere = write_report(sample_run(), sample_sweep(), (folder / "missing").string());
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_THAT(nowhere.error().message, HasSubstr("missing/report.md: cannot be written: No such file"));
}

}  // namespace
}  // namespace kvist::report::html_test
