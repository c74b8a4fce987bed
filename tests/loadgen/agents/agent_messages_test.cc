#include "kvist/loadgen/agents/agent_messages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kvist/loadgen/agents/clock_offset.h"

namespace kvist::loadgen::agent_messages_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

AgentReport report() {
  AgentReport report{.kvist_version = "9.9.9",
                     .protocol = kAgentProtocol,
                     .threads = 2,
                     .state = AgentState::kDraining,
                     .load = "load-1",
                     .schedule = "abc",
                     .error = "why"};
  report.progress.succeeded = 10;
  report.progress.failed = 1;
  report.progress.window.in_flight = 3;
  report.progress.window.turns_per_s = 2.5;
  report.progress.window.ttft_p50_ms = 12.25;
  report.progress.itl_p95_ms = 21;
  report.exhausted = true;
  report.samples_refused = 4;
  report.held_back = {.sent_late = 5, .not_sent = 6};
  report.driven = milliseconds(1'500);
  report.latest_change = milliseconds(7);
  report.client.cpu_seconds = 0.5;
  report.client.steal_share = 0.25;
  report.client.refused_starts = "8 were refused";
  report.client.loops = {{.loop_delay_p99_ms = 1, .loop_delay_max_ms = 9, .loop_stalls = 2, .loop_stalled_ms = 30},
                         {.loop_delay_p99_ms = 2,
                          .loop_delay_max_ms = 3,
                          .loop_stalls = 1,
                          .loop_stalled_ms = 4,
                          .run_queue_seconds = 0.125}};
  WatchedPauses pauses{.late = {}, .pauses = 3, .real_time = true, .cpu_seconds = 0.01};
  for (int i = 1; i <= 40; ++i) pauses.late.record(Duration(i * i * 1'003));
  report.client.pauses = pauses;
  return report;
}

TEST(AgentMessagesTest, AReportComesBackWithTheWorstLoop) {
  const auto read = parse_agent_report(agent_report_json(report()));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(agent_report_json(*read), agent_report_json(report()));
  EXPECT_EQ(read->state, AgentState::kDraining);
  EXPECT_EQ(read->progress.window.ttft_p50_ms, 12.25);
  EXPECT_FALSE(read->progress.window.ttft_p95_ms.has_value());
  EXPECT_EQ(read->client.loop_delay_p99_ms, 2);
  EXPECT_EQ(read->client.loop_delay_max_ms, 9);
  EXPECT_EQ(read->client.loop_stalls, 3U);
  EXPECT_EQ(read->client.loop_stalled_ms, 34);
  EXPECT_EQ(read->client.run_queue_seconds, 0.125);
  const DelayHistogram& late = read->client.pauses->late;
  EXPECT_EQ(late.count(), 40U);
  EXPECT_EQ(late.max(), report().client.pauses->late.max());
  for (const double q : {0.01, 0.5, 0.9, 1.0}) EXPECT_EQ(late.quantile(q), report().client.pauses->late.quantile(q));
}

TEST(AgentMessagesTest, OfAnotherProtocolOnlyTheVersionIsRead) {
  const auto read = parse_agent_report(R"({"kvist_version":"0.0.1","protocol":77,"threads":"many"})");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->kvist_version, "0.0.1");
  EXPECT_EQ(read->protocol, 77U);
  const std::string same = fmt::format(R"({{"kvist_version":"0.0.1","protocol":{},"threads":"many"}})", kAgentProtocol);
  EXPECT_FALSE(parse_agent_report(same).has_value());
  EXPECT_FALSE(parse_agent_report("{}").has_value());
  EXPECT_FALSE(parse_agent_report("[]").has_value());
}

TEST(AgentMessagesTest, CommandsComeBack) {
  const auto load = parse_load_command(load_command_json(
      {.load = "x", .shard = {.index = 2, .count = 5}, .order = R"({"rate":4,"list":["a"]})", .watched = true}));
  ASSERT_TRUE(load.has_value()) << load.error().message;
  EXPECT_EQ(load->shard.index, 2U);
  EXPECT_TRUE(load->watched);
  EXPECT_EQ(load->shard.count, 5U);
  EXPECT_EQ(load->order, R"({"rate":4,"list":["a"]})");
  const TimePoint at(milliseconds(123'456));
  const auto start = parse_agent_start(agent_start_json({.load = "x", .at = at, .stop = at + milliseconds(1)}));
  ASSERT_TRUE(start.has_value()) << start.error().message;
  EXPECT_EQ(start->at, at);
  EXPECT_EQ(start->stop, at + milliseconds(1));
  EXPECT_FALSE(parse_agent_start(agent_start_json({.load = "x", .at = at, .stop = {}}))->stop.has_value());
  const auto change = parse_agent_change(
      agent_change_json({.load = "x", .at = at, .change = {.concurrency = 7, .max_start_rate = 2.5}}));
  ASSERT_TRUE(change.has_value()) << change.error().message;
  EXPECT_EQ(change->change, (workload::LoadChange{.concurrency = 7, .max_start_rate = 2.5}));
  EXPECT_FALSE(parse_agent_stop(agent_stop_json({.load = "x", .drain = false}))->drain);
  EXPECT_EQ(parse_clock(clock_json(at)).value(), at);
  EXPECT_EQ(parse_file_state(file_state_json({.bytes = 9, .complete = true}))->bytes, 9U);
}

TEST(AgentMessagesTest, CommandsOutOfTheirBoundsAreRefused) {
  const auto message = [](const auto& result) { return result.has_value() ? "accepted" : result.error().message; };
  EXPECT_THAT(message(parse_load_command(R"({"load":"x","first":5,"of":5,"order":{}})")), HasSubstr("first"));
  EXPECT_THAT(message(parse_load_command(R"({"load":"x","first":0,"of":1,"order":[]})")), HasSubstr("order"));
  EXPECT_THAT(message(parse_load_command(R"({"load":"","first":0,"of":1,"order":{}})")), HasSubstr("load"));
  EXPECT_THAT(message(parse_load_command(R"({"load":"x","first":0,"of":1,"order":{},"more":1})")), HasSubstr("more"));
  EXPECT_THAT(message(parse_agent_start(R"({"load":"x","at_ns":-1})")), HasSubstr("at_ns"));
  EXPECT_THAT(message(parse_agent_start(R"({"load":"x","at_ns":9223372036854775807})")), HasSubstr("at_ns"));
  EXPECT_THAT(message(parse_agent_start(R"({"load":"x","at_ns":5,"stop_ns":5})")), HasSubstr("must be after"));
  EXPECT_THAT(message(parse_agent_change(R"({"load":"x","at_ns":5,"change":{"speed":1}})")), HasSubstr("unknown"));
  EXPECT_THAT(message(parse_agent_change(R"({"load":"x","at_ns":5,"change":{}})")), HasSubstr("change"));
}

}  // namespace
}  // namespace kvist::loadgen::agent_messages_test
