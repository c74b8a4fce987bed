#include "kvist/workload/trace_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "kvist/spec/files.h"
#include "kvist/workload/trace_file.h"

namespace kvist::workload::trace_generator_test {
namespace {

using ::testing::HasSubstr;

TraceOptions small() {
  TraceOptions options;
  options.workload.seed = 7;
  options.workload.starters = 3;
  options.workload.max_tokens = 300;
  options.workload.target_rps = 2;
  options.conversations = 50;
  return options;
}

TEST(TraceGenerator, IsSeeded) {
  const Trace trace = generate_trace(small()).value();
  EXPECT_EQ(generate_trace(small()).value(), trace);
  TraceOptions other = small();
  other.workload.seed = 8;
  EXPECT_NE(generate_trace(other).value(), trace);
  EXPECT_EQ(parse_trace(trace_text(trace), "generated").value(), trace);  // whole milliseconds throughout
}

TEST(TraceGenerator, RequestsFollowTheOptions) {
  const TraceOptions options = small();
  const Trace trace = generate_trace(options).value();
  EXPECT_GE(trace.requests.size(), 150U);  // 3 to 5 turns each
  EXPECT_LE(trace.requests.size(), 250U);
  std::uint64_t next_id = 0;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    EXPECT_GE(request.at, trace.requests[i == 0 ? 0 : i - 1].at);
    EXPECT_GE(request.input_tokens, options.workload.starter_tokens_min);
    EXPECT_GE(request.output_tokens, options.output_tokens_min);
    EXPECT_LE(request.output_tokens, options.workload.max_tokens);
    EXPECT_EQ(request.hash_ids.size(), (request.input_tokens + 511) / 512);
    for (const std::uint64_t id : request.hash_ids) {
      EXPECT_LE(id, next_id) << "ids count up as they appear";
      next_id = std::max(next_id, id + 1);
    }
  }
  EXPECT_EQ(trace.requests.front().at, Duration(0));
}

/// How many leading ids two lists have in common.
std::size_t common_prefix(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

TEST(TraceGenerator, PromptsGrowTurnByTurn) {
  TraceOptions options = small();
  options.workload.starters = 1;
  options.workload.turns_min = options.workload.turns_max = 4;
  options.conversations = 10;
  const Trace trace = generate_trace(options).value();
  ASSERT_EQ(trace.requests.size(), 40U);
  const std::size_t starter_blocks = trace.requests[0].input_tokens / 512;
  std::set<std::vector<std::uint64_t>> first_turns;
  std::size_t grown = 0;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    EXPECT_GE(common_prefix(request.hash_ids, trace.requests[0].hash_ids), starter_blocks) << "one starter for all";
    if (request.input_tokens == trace.requests[0].input_tokens) first_turns.insert(request.hash_ids);
    // A later turn continues an earlier prompt: all its complete blocks.
    for (std::size_t before = 0; before < i; ++before) {
      const TraceRequest& earlier = trace.requests[before];
      const std::size_t complete = earlier.input_tokens / 512;
      if (complete > starter_blocks && common_prefix(request.hash_ids, earlier.hash_ids) >= complete) {
        ++grown;
        break;
      }
    }
  }
  EXPECT_EQ(first_turns.size(), 1U) << "equal prompts have equal ids to their ends";
  EXPECT_GE(grown, 10U);
}

TEST(TraceGenerator, TheExampleMatchesItsWorkload) {
  TraceOptions options;
  options.workload = spec::load_workload(KVIST_SOURCE_DIR "/examples/traces/workload.yaml").value();
  options.conversations = 60;
  EXPECT_EQ(load_trace(KVIST_SOURCE_DIR "/examples/traces/chat.jsonl").value(), generate_trace(options).value());
}

TEST(TraceGenerator, LengthsFollowTheirLaws) {
  const YamlNode yaml = YamlNode::parse(R"(
turns: list:1*99,2
starters: 100
starter_tokens: list:100*99,5000
follow_up_tokens: list:7
answer_tokens: normal:100/1:90-4000)",
                                        "laws.yaml")
                            .value();
  TraceOptions options;
  options.workload = spec::read_workload(yaml).value();
  options.conversations = 1'000;
  const Trace trace = generate_trace(options).value();
  EXPECT_NEAR(static_cast<double>(trace.requests.size()), 1'010, 15);
  double answers = 0;
  for (const TraceRequest& request : trace.requests) answers += request.output_tokens;
  EXPECT_NEAR(answers / static_cast<double>(trace.requests.size()), 100, 1);
  EXPECT_GT(std::ranges::count(trace.requests, 100U, &TraceRequest::input_tokens), 900);
}

TEST(TraceGenerator, AnswersAreWithinTheirLimits) {
  const auto lengths = [](auto change) {
    TraceOptions options = small();
    change(options.workload);
    std::set<std::uint32_t> found;
    const Trace trace = generate_trace(options).value();
    for (const TraceRequest& request : trace.requests) found.insert(request.output_tokens);
    return found;
  };
  EXPECT_LT(*lengths([](spec::WorkloadSpec&) {}).begin(), 50U) << "answers end before a limit that is all alike";
  EXPECT_GE(*lengths([](spec::WorkloadSpec& w) { w.max_tokens_min = 200; }).begin(), 200U);
  EXPECT_EQ(lengths([](spec::WorkloadSpec& w) { w.ignore_eos = true; }), std::set<std::uint32_t>{300});
}

TEST(TraceGenerator, RefusesInvalidOptions) {
  const auto message = [](auto change) {
    TraceOptions options = small();
    change(options);
    return generate_trace(options).error().message;
  };
  EXPECT_THAT(message([](TraceOptions& o) { o.conversations = 0; }), HasSubstr("conversations is 0"));
  EXPECT_THAT(message([](TraceOptions& o) { o.conversations = 4'000'000'000; }), HasSubstr("10000000 requests"));
  EXPECT_THAT(message([](TraceOptions& o) { o.workload.turns_min = 0; }), HasSubstr("turns_min is 0"));
  EXPECT_THAT(message([](TraceOptions& o) { o.think_time = Duration(0); }), HasSubstr("think_time"));
  EXPECT_THAT(message([](TraceOptions& o) { o.workload.max_tokens = 1U << 31; }), HasSubstr("want at most 16777216"));
}

}  // namespace
}  // namespace kvist::workload::trace_generator_test
