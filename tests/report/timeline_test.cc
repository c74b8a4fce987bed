#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "analysis/sample_run.h"
#include "kvist/analysis/slow_turns.h"
#include "kvist/analysis/timeline_view.h"
#include "kvist/report/report.h"
#include "kvist/report/timeline_csv.h"
#include "kvist/report/timeline_svg.h"

namespace kvist::report::timeline_test {
namespace {

using analysis::at_ms;
using analysis::sample_run;
using analysis::sample_sweep;
using analysis::turn_sent_at;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// One worker of 4 slots and 100 blocks, read each second from 0 to 60; one turn on it, sent at 20.5 s.
results::LevelRecord watched_level(std::int64_t ttft_ms) {
  results::LevelRecord level;
  level.mode = spec::RoutingMode::kKv;
  level.concurrency = 5;
  level.measure_from = at_ms(10'000);
  level.measure_to = at_ms(60'000);
  results::WorkerTimeline timeline{.worker = "worker-0", .kv_blocks = 100, .max_batch_size = 4, .points = {}};
  for (int second = 0; second <= 60; ++second) {
    timeline.points.push_back({.at = at_ms(1'000 * second), .running = 2, .kv_blocks_used = 50, .step_ms = 20});
  }
  level.timelines.push_back(std::move(timeline));
  workload::TurnSample turn = turn_sent_at(20'500, ttft_ms, {20});
  turn.conversation = ConversationId(3);
  turn.turn = 1;
  turn.worker = "worker-0";
  turn.prompt_tokens = 4'000;
  turn.cached_tokens = 3'950;
  level.turns.push_back(turn);
  return level;
}

/// The turn before the slow one.
void add_turn_before(results::LevelRecord& level, const char* worker) {
  workload::TurnSample before = turn_sent_at(12'000, 100, {20});
  before.conversation = level.turns.front().conversation;
  before.worker = worker;
  level.turns.push_back(before);
}

analysis::SlowCause cause_in(const results::LevelRecord& level) {
  const std::vector<analysis::SlowTurn> slow = analysis::find_slow_turns(level, 150);
  EXPECT_THAT(slow, SizeIs(1));
  return slow.empty() ? analysis::SlowCause::kNotVisible : slow.front().cause;
}

TEST(SlowTurns, TheWorkersTimelineNamesTheCause) {
  results::LevelRecord level = watched_level(3'000);
  EXPECT_EQ(cause_in(level), analysis::SlowCause::kNotVisible);
  std::vector<results::TimelinePoint>& points = level.timelines[0].points;
  points[23].step_ms = 1'600;
  EXPECT_EQ(cause_in(level), analysis::SlowCause::kLongStep);
  points[22].prefill_backlog_tokens = 9'000;
  EXPECT_EQ(cause_in(level), analysis::SlowCause::kPrefillQueue);
  level.turns[0].cached_tokens = 32;
  EXPECT_EQ(cause_in(level), analysis::SlowCause::kOwnPrefill);
  add_turn_before(level, "worker-1");
  EXPECT_EQ(cause_in(level), analysis::SlowCause::kPrefixElsewhere);
  level.turns[1].worker = "worker-0";
  EXPECT_EQ(cause_in(level), analysis::SlowCause::kEvictedPrefix);
  points[22].waiting = 1;
  points[21].kv_blocks_used = 95;
  EXPECT_EQ(cause_in(level), analysis::SlowCause::kKvMemoryWait);
  points[22].running = 4;
  EXPECT_EQ(cause_in(level), analysis::SlowCause::kSlotWait);
  for (std::size_t second = 23; second < points.size(); ++second) points[second].preemptions = 1;
  EXPECT_EQ(cause_in(level), analysis::SlowCause::kPreemption);
}

TEST(SlowTurns, OnlyWhatHappensWhileTheTurnWaitsCounts) {
  results::LevelRecord level = watched_level(3'000);  // first token at 23.5 s: readings 20 to 24
  std::vector<results::TimelinePoint>& points = level.timelines[0].points;
  points[19].waiting = points[25].waiting = 9;
  points[19].running = points[25].running = 4;
  for (std::size_t second = 0; second < points.size(); ++second) points[second].preemptions = second <= 19 ? 1 : 2;
  points[20].preemptions = 2;
  EXPECT_EQ(cause_in(level), analysis::SlowCause::kNotVisible);
  const analysis::SlowTurn slow = analysis::find_slow_turns(level, 150).front();
  EXPECT_DOUBLE_EQ(slow.second, 20.5);
  EXPECT_EQ(slow.reading->waiting, 0U);
  EXPECT_DOUBLE_EQ(slow.reading->kv_used, 0.5);
}

TEST(SlowTurns, TurnsOutsideTheWindowOrWithoutATimelineAreNotExplained) {
  results::LevelRecord level = watched_level(3'000);
  level.turns[0].worker = "worker-9";
  EXPECT_FALSE(analysis::find_slow_turns(level, 150).front().reading.has_value());
  level.measure_from = at_ms(21'000);
  EXPECT_THAT(analysis::find_slow_turns(level, 150), SizeIs(0));
  level = watched_level(3'000);
  level.timelines.clear();
  EXPECT_THAT(analysis::find_slow_turns(level, 150), SizeIs(0));
}

/// Many workers, many readings, many turns.
results::LevelRecord large_level() {
  results::LevelRecord level;
  level.measure_to = at_ms(3'600'000);
  for (int worker = 0; worker < 40; ++worker) {
    results::WorkerTimeline timeline{
        .worker = "worker-" + std::to_string(worker), .kv_blocks = 1'000, .max_batch_size = 64, .points = {}};
    for (int second = 0; second < 3'600; ++second) {
      timeline.points.push_back({.at = at_ms(1'000 * second), .running = second == 1'234 ? 64U : 10U});
    }
    level.timelines.push_back(std::move(timeline));
  }
  for (int i = 0; i < 20'000; ++i) {
    workload::TurnSample turn = turn_sent_at(100 * i, 100 + i % 1'000, {});
    turn.worker = "worker-" + std::to_string(i % 40);
    level.turns.push_back(std::move(turn));
  }
  return level;
}

TEST(TimelineView, IsBoundedAndKeepsTheExtremes) {
  const analysis::TimelineView view = analysis::condense(large_level());
  EXPECT_EQ(view.workers, 40U);
  ASSERT_THAT(view.tracks, SizeIs(analysis::kMaxDrawnWorkers));
  for (const analysis::WorkerTrack& track : view.tracks) {
    ASSERT_THAT(track.points, SizeIs(analysis::kMaxDrawnPoints));
    EXPECT_EQ(std::ranges::max(track.points, {}, &results::TimelinePoint::running).running, 64U);
  }
  EXPECT_LE(view.dots.size(), analysis::kMaxDrawnTurns + analysis::kMaxDrawnSlowTurns);
  EXPECT_THAT(view.slowest, SizeIs(analysis::kListedSlowTurns));
  EXPECT_DOUBLE_EQ(view.slowest.front().ttft_ms, 1'099);
  std::size_t slow = 0;
  for (const std::size_t n : view.causes) slow += n;
  EXPECT_EQ(slow, 1'000U);
  EXPECT_LT(render_timeline(view, "t").size(), 150'000U);
}

TEST(TimelineSvg, DrawsCapTracksAndMarksSlowTurns) {
  const analysis::TimelineView view = analysis::condense(watched_level(3'000));
  EXPECT_TRUE(analysis::condense(results::LevelRecord{}).empty());
  EXPECT_EQ(render_timeline({}, "t"), "");
  results::LevelRecord level = watched_level(3'000);
  for (int i = 0; i < 30; ++i) {
    level.turns.push_back(turn_sent_at(30'000 + i, 100, {20}));
    level.turns.back().worker = "worker-0";
  }
  level.timelines[0].worker = "<b>";
  const std::string svg = render_timeline(analysis::condense(level), "KV at <5>");
  EXPECT_THAT(svg, HasSubstr("KV at &lt;5&gt;"));
  EXPECT_THAT(svg, HasSubstr("&lt;b&gt;"));
  EXPECT_THAT(svg, HasSubstr("class=\"cap\""));
  EXPECT_THAT(svg, HasSubstr("batch slots"));
  EXPECT_THAT(svg, HasSubstr("<title>3000ms at 20.5 s on a worker not drawn</title>"));
}

TEST(TimelineCsv, HasALinePerWorkerAndReading) {
  results::LevelRecord level = watched_level(100);
  level.repetition = 2;
  level.timelines[0].worker = "a,\"b\"";
  level.timelines[0].points.resize(2);
  level.timelines[0].points[1].evictions = 7;
  level.timelines[0].points[1].prefill_backlog_tokens = 4'096;
  std::string csv = timeline_csv_head();
  append_timeline_csv(csv, level);
  EXPECT_EQ(csv,
            "mode,concurrency,repetition,worker,second,running,slots,waiting,kv_blocks_used,kv_blocks,evictions,"
            "preemptions,prefill_backlog_tokens,step_ms\n"
            "kv,5,2,\"a,\"\"b\"\"\",0.000,2,4,0,50,100,0,0,0,20.000\n"
            "kv,5,2,\"a,\"\"b\"\"\",1.000,2,4,0,50,100,7,0,4096,20.000\n");
}

TEST(TimelineReport, IsWrittenLevelByLevel) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "timeline_report";
  std::filesystem::create_directories(folder);
  std::size_t next = 0;
  const analysis::LevelSource source = [&]() -> Result<std::optional<results::LevelRecord>> {
    if (next == 2) return std::nullopt;
    results::LevelRecord level = watched_level(3'000);
    level.concurrency = next++ == 0 ? 5 : 6;
    return level;
  };
  results::RunRecord header = sample_run();
  header.levels.clear();
  const auto written = write_report(header, sample_sweep(), source, folder.string());
  ASSERT_TRUE(written.has_value()) << written.error().message;
  std::ifstream csv(written->files.timeline);
  std::string line;
  int lines = 0;
  while (std::getline(csv, line)) ++lines;
  EXPECT_EQ(lines, 1 + 2 * 61);
  std::stringstream html;
  html << std::ifstream(written->files.html).rdbuf();
  EXPECT_THAT(html.str(), HasSubstr("<h2>Timelines</h2>"));
  EXPECT_THAT(html.str(), HasSubstr("<h2>Slowest turns</h2>"));
  EXPECT_THAT(written->table, HasSubstr("kv"));
}

}  // namespace
}  // namespace kvist::report::timeline_test
