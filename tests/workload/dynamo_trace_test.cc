#include "kvist/workload/dynamo_trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace kvist::workload::dynamo_trace_test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// 54 requests of 14 sessions and one that tried the model, to three mockers behind the frontend of Dynamo 1.6.1.
const std::string kRecorded = KVIST_SOURCE_DIR "/tests/golden/traces/dynamo-1.6.1-requests.jsonl";

struct Row {
  std::int64_t at_ms = 1'000;
  std::string hashes = "11,22,33";  // of blocks of 4
  int input = 10;
  std::string fields = R"(,"output_tokens":3,"ttft_ms":5.5,"avg_itl_ms":2.25,"total_time_ms":10,)"
                       R"("worker":{"prefill_worker_id":7,"decode_worker_id":7,"decode_dp_rank":0})";
  std::string session = {};
  int block_size = 4;
};
std::string event(const Row& row) {
  return fmt::format(
      R"({{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":{}{},"request":)"
      R"({{"request_id":"a","request_received_ms":{}{},"replay":{{"trace_block_size":{},"input_length":{},)"
      R"("input_sequence_hashes":[{}]}}}}}})",
      row.at_ms + 20, row.session.empty() ? "" : fmt::format(R"(,"agent_context":{{"session_id":"{}"}})", row.session),
      row.at_ms, row.fields, row.block_size, row.input, row.hashes);
}
std::string line(const Row& row) {
  return event(row) + "\n";
}
RecordedTraffic parsed(const std::string& text) {
  auto traffic = parse_dynamo_trace(text, "t");
  EXPECT_TRUE(traffic.has_value()) << traffic.error().message;
  return traffic ? *std::move(traffic) : RecordedTraffic{};
}

TEST(DynamoTrace, ThatDynamoWroteIsARecord) {
  const auto read = load_traffic(kRecorded);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const auto& requests = read->trace.requests;
  ASSERT_EQ(requests.size(), 54U);
  EXPECT_EQ(read->unserved, 0U);
  EXPECT_EQ(read->head.model, "m");
  EXPECT_EQ(read->head.tokens_per_hash, 32U);
  EXPECT_EQ(read->head.workers.size(), 3U);
  EXPECT_EQ(read->prefilled_elsewhere, 0U);
  EXPECT_FALSE(read->tells_modes);
  EXPECT_EQ(requests.front().at, Duration{});
  EXPECT_TRUE(std::ranges::is_sorted(requests, {}, &TraceRequest::at));
  // Each turn but the first waited for the one before it, also where the next came in the same millisecond.
  EXPECT_EQ(std::ranges::count_if(requests, [](const TraceRequest& r) { return r.after.has_value(); }), 54 - 15);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].hash_ids.size(), requests[i].input_tokens / 32) << "complete blocks alone";
    EXPECT_TRUE(read->observed[i].completed);
    EXPECT_GT(read->observed[i].ttft_ms.value_or(0), 0);
    EXPECT_EQ(read->observed[i].tpot_ms.has_value(), requests[i].output_tokens > 1);
    EXPECT_EQ(read->observed[i].mode, spec::RoutingMode::kDynamo);
    EXPECT_TRUE(std::ranges::count(read->head.workers, read->observed[i].worker) == 1);
  }
  EXPECT_EQ(requests.front().input_tokens, 17U);
  EXPECT_EQ(requests.front().output_tokens, 1U);
  EXPECT_EQ(requests.back().output_tokens, 100U);
  EXPECT_EQ(load_trace(kRecorded)->requests.size(), 54U);
  EXPECT_EQ(load_trace(kRecorded)->tokens_per_hash, 32U);
}

TEST(DynamoTrace, RowsComeInAnyOrderWrappedOrNot) {
  const RecordedTraffic traffic =
      parsed(R"({"event_type":"request_payload","request_id":"a"})"
             "\n" +
             line({.at_ms = 1'030, .hashes = "11,22,44", .input = 12, .fields = R"(,"output_tokens":0)"}) +
             R"({"timestamp":5,"event":)" +
             event({.at_ms = 1'007,
                    .fields = R"(,"output_tokens":1,"cached_tokens":8,"ttft_ms":6,)"
                              R"("worker":{"decode_worker_id":9,"decode_dp_rank":2})"}) +
             "}\n\n" + R"({"schema":"dynamo.request.trace.v1","event_type":"tool_end","event_time_unix_ms":3})" + "\n" +
             line({.at_ms = 1'001,
                   .fields = R"(,"output_tokens":4,"ttft_ms":6,"avg_itl_ms":1,"total_time_ms":8.5,)"
                             R"("finish_reason_metadata":{"finish_reason":"cancelled"},)"
                             R"("worker":{"prefill_worker_id":3,"decode_worker_id":4})"}));
  EXPECT_EQ(traffic.unserved, 1U) << "that no worker answered";
  ASSERT_EQ(traffic.trace.requests.size(), 2U);
  EXPECT_EQ(traffic.trace.requests[0].at, Duration{});
  EXPECT_EQ(traffic.trace.requests[1].at, milliseconds(6));
  EXPECT_THAT(traffic.trace.requests[1].hash_ids, ElementsAre(11, 22)) << "the third block is not full";
  EXPECT_FALSE(traffic.observed[0].completed);
  EXPECT_EQ(traffic.observed[0].latency_ms, 8.5);
  EXPECT_TRUE(traffic.observed[1].completed);
  EXPECT_EQ(traffic.observed[1].latency_ms, 20) << "by the event's own instant";
  EXPECT_EQ(traffic.observed[1].cached_tokens, 8U);
  EXPECT_THAT(traffic.head.workers, ElementsAre("4", "9:2"));
  EXPECT_EQ(traffic.prefilled_elsewhere, 1U);
}

// Instants are whole milliseconds, rounded down: the second request's may lie before the end of what it waited for.
TEST(DynamoTrace, TheNextTurnWaitedThoughItsInstantIsRounded) {
  const auto fields = [](double ms) {
    return fmt::format(R"(,"output_tokens":3,"ttft_ms":1,"total_time_ms":{},"worker":{{"decode_worker_id":1}})", ms);
  };
  const RecordedTraffic traffic =
      parsed(line({.at_ms = 1'000, .fields = fields(10.9), .session = "s"}) +
             line({.at_ms = 1'010, .hashes = "11,22,33,44", .input = 16, .fields = fields(5), .session = "s"}) +
             line({.at_ms = 1'013, .hashes = "11,22,33,44,55", .input = 20, .fields = fields(5), .session = "s"}));
  ASSERT_EQ(traffic.trace.requests.size(), 3U);
  EXPECT_EQ(traffic.trace.requests[1].after, (FollowUp{.request = 0, .pause = Duration{}}));
  EXPECT_EQ(traffic.trace.requests[2].after, (FollowUp{.request = 0, .pause = std::chrono::microseconds(2'100)}))
      << "the second was under way";
}

TEST(DynamoTrace, ErrorsNameTheLineAndWhatIsWanted) {
  const auto error = [](const std::string& text) {
    const auto read = parse_dynamo_trace(text, "t");
    return read ? std::string("none") : read.error().message;
  };
  EXPECT_THAT(error(line({}) + line({.hashes = "11"})),
              AllOf(StartsWith("t:2: request.replay.input_sequence_hashes: "), HasSubstr("want 3")));
  EXPECT_THAT(error(line({}) + line({.hashes = "11,22", .block_size = 8})),
              AllOf(StartsWith("t:2: request.replay.trace_block_size: "), HasSubstr("8 after 4")));
  EXPECT_THAT(error(R"({"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1,)"
                    R"("request":{"request_received_ms":1,"output_tokens":1}})"
                    "\n"),
              StartsWith("t:1: request.replay: required"));
  EXPECT_THAT(error(R"({"schema":"dynamo.request.trace.v2","event_type":"request_end"})"
                    "\n"),
              AllOf(StartsWith("t:1: schema: "), HasSubstr("dynamo.request.trace.v1")));
  EXPECT_THAT(error(R"({"event_type":"begun"})"
                    "\n"),
              StartsWith("t:1: event_type: "));
  EXPECT_THAT(error(line({.fields = R"(,"model":"x")"}) + line({.fields = R"(,"model":"y")"})),
              AllOf(StartsWith("t:2: request.model: "), HasSubstr("\"y\" after \"x\"")));
  EXPECT_THAT(error(line({.fields = ""})), HasSubstr("holds no request_end"));
  EXPECT_THAT(parse_dynamo_trace(line({}) + line({}), "t", {.requests = 1}).error().message,
              HasSubstr("more than 1 requests"));
  EXPECT_THAT(parse_dynamo_trace(line({}), "t", {.hash_ids = 2}).error().message, HasSubstr("more than 2 in all"));
}

TEST(DynamoTrace, ALastRowThatWasCutIsLeftOut) {
  EXPECT_EQ(parsed(line({}) + line({}).substr(0, 90)).trace.requests.size(), 1U);
  EXPECT_EQ(parsed(line({}) + event({})).trace.requests.size(), 2U) << "whole, without an end of line";
  EXPECT_FALSE(parse_dynamo_trace(line({}).substr(0, 90) + "\n" + line({}), "t").has_value());
}

TEST(DynamoTrace, TextsOfAnyLengthArePassedOver) {
  const TraceLimits limits{.line_bytes = 1'000};
  const std::string payload =
      R"({"timestamp":1,"event":{"event_type":"request_payload","text":")" + std::string(700'000, 'x') + "\"}}\n";
  const std::string text = payload + line({}) + payload + line({});
  EXPECT_EQ(parse_dynamo_trace(text, "t", limits)->trace.requests.size(), 2U);
  const std::string path = (std::filesystem::path(::testing::TempDir()) / "kvist-dynamo-payload.jsonl").string();
  std::ofstream(path) << text;
  EXPECT_EQ(load_dynamo_trace(path, limits)->trace.requests.size(), 2U) << "in pieces";
  std::filesystem::remove(path);
  EXPECT_THAT(
      parse_dynamo_trace(line({.fields = R"(,"x":")" + std::string(2'000, 'y') + "\""}), "t", limits).error().message,
      StartsWith("t:1: "));
}

TEST(DynamoTrace, SegmentsAreReadFromTheGivenOneOn) {
  const std::string folder = (std::filesystem::path(::testing::TempDir()) / "kvist-dynamo-trace").string();
  std::filesystem::create_directories(folder);
  const std::string name = folder + "/trace.00000";
  std::ofstream(name + "3.jsonl") << line({.at_ms = 5});
  std::ofstream(name + "4.jsonl") << line({.at_ms = 4}) << line({.at_ms = 9});
  std::ofstream(name + "6.jsonl") << line({.at_ms = 7});
  EXPECT_EQ(load_traffic(name + "3.jsonl")->trace.requests.size(), 3U);
  EXPECT_EQ(load_trace(name + "4.jsonl")->requests.size(), 2U);
  std::ofstream(folder + "/other.jsonl") << line({});
  EXPECT_EQ(load_traffic(folder + "/other.jsonl")->trace.requests.size(), 1U);
  EXPECT_EQ(load_traffic(folder + "/none.jsonl").error().code, ErrorCode::kNotFound);
  std::filesystem::remove_all(folder);
}

TEST(DynamoTrace, ASegmentThatEndsWithinAPayloadLeavesTheNextOneWhole) {
  const std::string name = (std::filesystem::path(::testing::TempDir()) / "kvist-dynamo-cut.00000").string();
  std::ofstream(name + "0.jsonl") << line({}) << R"({"event_type":"request_payload","text":")"
                                  << std::string(2'000, 'x');
  std::ofstream(name + "1.jsonl") << line({});
  EXPECT_EQ(load_dynamo_trace(name + "0.jsonl", {.line_bytes = 1'000})->trace.requests.size(), 2U);
  for (const char* number : {"0", "1"}) std::filesystem::remove(name + number + ".jsonl");
}

TEST(DynamoTrace, ItsPromptsAreWhole) {
  EXPECT_THAT(parse_trace(line({}), "t", {}, {.rows = spec::TraceRows::kAdded}).error().message,
              HasSubstr("t: rows: added is for sessions in Mooncake's format"));
}

}  // namespace
}  // namespace kvist::workload::dynamo_trace_test
