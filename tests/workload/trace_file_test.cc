#include "kvist/workload/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "kvist/base/random.h"

namespace kvist::workload::trace_file_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kLine = R"({"timestamp": 27482, "input_length": 955, "output_length": 52, "hash_ids": [46, 47]})";

// As AIPerf writes them: what is new in each turn, and neither ids nor instants need to be known.
TEST(TraceFile, RowsCanHaveWhatIsNewInATurn) {
  const std::string rows =
      R"({"session_id": "a", "timestamp": 5, "input_length": 1100, "output_length": 40, "hash_ids": [7, 8, 9]}
{"session_id": "b", "timestamp": 6, "input_length": 10, "output_length": 4, "hash_ids": [7]}
{"session_id": "a", "delay": 2, "input_length": 300, "output_length": 20, "hash_ids": [5]}
{"session_id": "a", "delay": 3, "input_length": 1, "output_length": 20, "hash_ids": [6]}
)";
  const auto trace = parse_trace(rows, "t", {}, {.rows = spec::TraceRows::kAdded});
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->requests[2].input_tokens, 1'100U + 40 + 300);
  EXPECT_THAT(trace->requests[2].hash_ids, ElementsAre(7, 8)) << "the whole blocks before the answer";
  EXPECT_EQ(trace->requests[3].input_tokens, 1'440U + 20 + 64) << "the template takes some";
  EXPECT_EQ(trace->requests[3].after, (FollowUp{.request = 2, .pause = milliseconds(3)}));
  EXPECT_EQ(parse_trace(rows, "t")->requests[2].input_tokens, 300U) << "as Mooncake's and Dynamo's rows have it";
  EXPECT_THAT(parse_trace(R"({"session_id": 1, "timestamp": 1, "input_length": 16777216, "output_length": 9}
{"session_id": 1, "input_length": 100, "output_length": 1})",
                          "t", {}, {.rows = spec::TraceRows::kAdded})
                  .error()
                  .message,
              StartsWith("t:2: input_length: the session has 16777325 tokens"));
}

spec::TraceSpec replayed(spec::TraceLoop loop, spec::TraceSessions sessions = spec::TraceSessions::kFollow) {
  spec::TraceSpec replay;
  replay.loop = loop;
  replay.sessions = sessions;
  return replay;
}

// All of them would be sent at the instant of their session's first row.
TEST(TraceFile, RowsThatFollowNobodyNeedAnInstantEach) {
  constexpr auto kIgnore = spec::TraceSessions::kIgnore;
  const auto trace = parse_trace(R"({"session_id": "a", "timestamp": 0, "input_length": 300, "output_length": 40}

{"session_id": "a", "delay": 300, "input_length": 400, "output_length": 20}
{"session_id": "a", "delay": 300, "input_length": 500, "output_length": 20})",
                                 "t");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_TRUE(check_instants(*trace, {}, "f"));
  EXPECT_THAT(check_instants(*trace, replayed(spec::TraceLoop::kOpen, kIgnore), "f").error().message,
              HasSubstr("f:3: timestamp: missing; with `sessions: ignore` each row needs one"));
  EXPECT_TRUE(check_instants(*trace, replayed(spec::TraceLoop::kClosed, kIgnore), "f"));
  EXPECT_TRUE(check_instants(*parse_trace(kLine, "t"), replayed(spec::TraceLoop::kOpen, kIgnore), "f"));
}

TEST(TraceFile, WithoutIdsOrInstantsItIsReadAsWhatItTells) {
  const auto trace = parse_trace(R"({"session_id": "a", "input_length": 300, "output_length": 40}
{"session_id": "a", "delay": 2, "input_length": 400, "output_length": 20}
{"session_id": "b", "input_length": 30, "output_length": 4})",
                                 "t");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_FALSE(trace->has_instants);
  EXPECT_TRUE(trace->requests[1].hash_ids.empty());
  EXPECT_EQ(trace->requests[1].after, (FollowUp{.request = 0, .pause = milliseconds(2)}));
  EXPECT_EQ(trace->requests[2].at, Duration{});
  EXPECT_THAT(check_instants(*trace, {}, "f").error().message, HasSubstr("f: no row has a timestamp"));
  EXPECT_TRUE(check_instants(*trace, replayed(spec::TraceLoop::kClosed), "f"));
  EXPECT_TRUE(parse_trace(kLine, "t")->has_instants);
  EXPECT_THAT(parse_trace(std::string(kLine) + R"(
{"timestamp": 27483, "input_length": 5, "output_length": 5})",
                          "t")
                  .error()
                  .message,
              HasSubstr("hash_ids: required"))
      << "other rows have them";
}

TEST(TraceFile, ReadsMooncakeLines) {
  const auto trace = parse_trace(
      "{\"timestamp\": 0, \"input_length\": 100, \"output_length\": 0, \"hash_ids\": []}\r\n"
      "\n" +
          std::string(kLine) +
          "\n"
          R"({"turn": 7, "timestamp": 27482.0005, "input_length": 1, "output_length": 1, "hash_ids": [18446744073709551615]})",
      "trace");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  ASSERT_EQ(trace->requests.size(), 3U);
  EXPECT_EQ(trace->requests[0].at, Duration(0));
  EXPECT_EQ(trace->requests[0].output_tokens, 0U);
  EXPECT_EQ(trace->requests[1].at, milliseconds(27'482));
  EXPECT_EQ(trace->requests[1].input_tokens, 955U);
  EXPECT_EQ(trace->requests[1].output_tokens, 52U);
  EXPECT_THAT(trace->requests[1].hash_ids, ElementsAre(46, 47));
  EXPECT_EQ(trace->requests[2].at, milliseconds(27'482) + microseconds(1));
  EXPECT_THAT(trace->requests[2].hash_ids, ElementsAre(~std::uint64_t{0}));
}

TEST(TraceFile, ErrorsNameTheLineAndWhatWouldBeRight) {
  struct Case {
    const char* line;
    const char* expected;
  };
  const Case cases[] = {
      {"[1, 2]", "expected an object, got an array"},
      {R"({"timestamp": 1, )", "not valid JSON"},
      {R"({"input_length": 5, "output_length": 5, "hash_ids": []})", "timestamp: required, but missing"},
      {R"({"timestamp": -1, "input_length": 5, "output_length": 5, "hash_ids": []})", "timestamp: expected"},
      {R"({"timestamp": 1e13, "input_length": 5, "output_length": 5, "hash_ids": []})", "timestamp: expected"},
      {R"({"timestamp": "1", "input_length": 5, "output_length": 5, "hash_ids": []})", "timestamp: expected"},
      {R"({"timestamp": 27483, "input_length": 0, "output_length": 5, "hash_ids": []})",
       "input_length: expected an integer from 1 to 16777216, got 0"},
      {R"({"timestamp": 27483, "input_length": 5, "output_length": 1.5, "hash_ids": []})", "output_length: expected"},
      {R"({"timestamp": 27483, "input_length": 5, "output_length": 5})", "hash_ids: required, but missing"},
      {R"({"timestamp": 27483, "input_length": 5, "output_length": 5, "hash_ids": [-1]})",
       "hash_ids[0]: expected a whole number"},
      {R"({"timestamp": 27483, "input_length": 5, "output_length": 5, "hash_ids": [18446744073709551616]})",
       "a number that is malformed, or an integer beyond 64 bits"},
      {R"({"timestamp": 27483, "input_length": 1000, "output_length": 5, "hash_ids": [1, 2, 3, 4]})",
       "hash_ids: 4 for an input_length of 1000; want 2 with tokens_per_hash 512 (or none); "
       "workload.trace.tokens_per_hash 256 would fit"},
      {R"({"timestamp": 27483, "input_length": 5, "output_length": 5, "hash_ids": [1, 2, 3, 4, 5, 6]})",
       "hash_ids: 6 for an input_length of 5; want 1 with tokens_per_hash 512 (or none)"},
      {R"({"timestamp": 27483, "input_length": 5, "output_length": 5, "hash_ids": [], "chat_id": 1})",
       "chat_id: not expected: only if the first row has both"},
      {R"({"timestamp": 3, "input_length": 5, "output_length": 5, "hash_ids": []})",
       "timestamp: 3 ms comes after 27482 ms; sort the trace by timestamp"},
      {R"({"timestamp": 27483, "input_length": 5, "output_length": 5, "hash_ids": [[[[[[[[[[]]]]]]]]]]})",
       "nested more than 8 deep"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.line);
    const auto trace = parse_trace(std::string(kLine) + "\n" + c.line + "\n", "some.jsonl");
    ASSERT_FALSE(trace.has_value());
    EXPECT_EQ(trace.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(trace.error().message, StartsWith("some.jsonl:2: "));
    EXPECT_THAT(trace.error().message, HasSubstr(c.expected));
  }
  EXPECT_THAT(parse_trace("\n\n", "empty").error().message, HasSubstr("holds no request"));
}

/// "place <- place before + pause" of each request that follows another.
std::vector<std::string> follow_ups_of(const Trace& trace) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const auto& after = trace.requests[i].after;
    if (!after) continue;
    found.push_back(
        std::to_string(i) + " <- " + std::to_string(after->request) +
        (after->pause ? " + " + std::to_string(std::chrono::round<milliseconds>(*after->pause).count()) : ""));
  }
  return found;
}

TEST(TraceFile, SessionsAndDelaysMakeRequestsFollowOthers) {
  const auto trace = parse_trace(
      R"({"timestamp": 10, "input_length": 600, "output_length": 5, "hash_ids": [1, 2], "session_id": "a", "priority": 1}
{"timestamp": 20, "input_length": 600, "output_length": 5, "hash_ids": [3, 4], "session_id": 7}
{"input_length": 700, "output_length": 5, "hash_ids": [1, 2], "session_id": "a", "delay": 1500}
{"timestamp": 15, "input_length": 700, "output_length": 5, "hash_ids": [3, 4], "session_id": 7, "delay_ms": 250}
{"timestamp": 900, "input_length": 800, "output_length": 5, "hash_ids": [1, 2], "session_id": "a"}
{"timestamp": 30, "input_length": 800, "output_length": 5, "hash_ids": [1, 2], "session_id": "b"}
{"timestamp": 31, "input_length": 800, "output_length": 5, "hash_ids": [1, 2], "follows": 1, "delay": 2})",
      "dynamo");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_THAT(follow_ups_of(*trace), ElementsAre("2 <- 0 + 1500", "3 <- 1 + 250", "4 <- 2", "6 <- 1 + 2"));
  EXPECT_EQ(trace->requests[2].at, milliseconds(10)) << "of the row it follows";
  EXPECT_EQ(parse_trace(trace_text(*trace), "again").value().requests, trace->requests);
  const auto error = [](const char* line) {
    return parse_trace(std::string(kLine) + "\n" + line, "t").error().message;
  };
  EXPECT_THAT(error(R"({"input_length": 7, "output_length": 5, "hash_ids": [], "session_id": "new"})"),
              AllOf(HasSubstr("t:2: timestamp"), HasSubstr("only a later row of a session")));
  EXPECT_THAT(error(R"({"timestamp": 27483, "input_length": 7, "output_length": 5, "hash_ids": [], "follows": 1})"),
              HasSubstr("t:2: follows: row 1 does not come before this one"));
  EXPECT_THAT(error(R"({"input_length": 7, "output_length": 5, "hash_ids": [], "session_id": 1, "delay": -1})"),
              HasSubstr("t:2: delay: expected milliseconds"));
}

TEST(TraceFile, ReadsBailianChats) {
  const auto trace = parse_trace(
      R"({"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.5, "input_length": 40, "output_length": 5, "type": "text", "turn": 1, "hash_ids": [1, 2, 3]}
{"chat_id": 3, "parent_chat_id": 1, "timestamp": 80, "input_length": 64, "output_length": 5, "type": "text", "turn": 2, "hash_ids": [1, 2, 5, 6]}
{"chat_id": 2, "parent_chat_id": 99, "timestamp": 70.0000012, "input_length": 16, "output_length": 5, "type": "search", "turn": 4, "hash_ids": [9]})",
      "bailian");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->tokens_per_hash, 16U);
  EXPECT_EQ(trace->requests[0].at, milliseconds(61'500));
  EXPECT_EQ(trace->requests[1].at, milliseconds(70'000) + microseconds(1)) << "in the order of their instants";
  EXPECT_THAT(follow_ups_of(*trace), ElementsAre("2 <- 0"));
  EXPECT_THAT(parse_trace(R"({"chat_id": 1, "parent_chat_id": -1, "timestamp": 1e10})", "t").error().message,
              HasSubstr("t:1: timestamp: expected seconds"));
}

TEST(TraceFile, TheFirstRowOfBailianSpeaksForAll) {
  const std::string first =
      R"({"chat_id": 1, "parent_chat_id": -1, "timestamp": 1, "input_length": 16, "hash_ids": [1], )"
      R"("output_length": 5})"
      "\n";
  const auto trace = parse_trace(
      first + R"({"chat_id": 2, "timestamp": 2, "input_length": 20, "output_length": 5, "hash_ids": [1, 2]})", "t");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->requests[1].at, milliseconds(2'000)) << "a row without a parent is a first turn like any other";
  EXPECT_THAT(parse_trace(first + R"({"timestamp": 2, "input_length": 16, "output_length": 5, "hash_ids": [1]})", "t")
                  .error()
                  .message,
              HasSubstr("t:2: chat_id: required, but missing"));
}

TEST(TraceFile, ParentsOfBailianAreUnambiguous) {
  const auto error_of = [](const std::vector<std::pair<int, int>>& chats_and_parents) {
    std::string text;
    for (const auto& [chat, parent] : chats_and_parents) {
      text += R"({"timestamp": 1, "input_length": 16, "output_length": 5, "hash_ids": [1], "chat_id": )" +
              std::to_string(chat) + R"(, "parent_chat_id": )" + std::to_string(parent) + "}\n";
    }
    const auto trace = parse_trace(text, "t");
    return trace ? std::string() : trace.error().message;
  };
  EXPECT_THAT(error_of({{1, -1}, {2, 2}}), StartsWith("t:2: parent_chat_id: leads back to this row"));
  EXPECT_THAT(error_of({{9, 1}, {1, 2}, {2, 3}, {3, 1}}), StartsWith("t:2: parent_chat_id: leads back to this row"));
  EXPECT_THAT(error_of({{1, -1}, {1, -1}, {2, 1}}), StartsWith("t:2: chat_id: that of line 1 too"));
  EXPECT_EQ(error_of({{1, -1}, {1, -1}, {2, 3}, {4, 2}, {5, 2}}), "");
}

TEST(TraceFile, ListsOfIdsHaveTheLengthOfTheirPrompts) {
  const auto with = [](const char* ids, std::uint32_t tokens_per_hash) {
    const std::string row = R"({"timestamp": 1, "output_length": 5, "input_length": 100, "hash_ids": )";
    return parse_trace(row + ids + "}", "t", {}, {.tokens_per_hash = tokens_per_hash}).has_value();
  };
  EXPECT_TRUE(with("[1, 2, 3]", 48)) << "one for the incomplete block";
  EXPECT_TRUE(with("[1, 2]", 48)) << "none for it";
  EXPECT_TRUE(with("[]", 48)) << "a prompt that shares nothing";
  EXPECT_FALSE(with("[1]", 48));
  EXPECT_FALSE(with("[1, 2, 3, 4]", 48));
  EXPECT_FALSE(with("[1, 2, 3]", 0));
  const std::string bailian =
      R"({"chat_id": 1, "parent_chat_id": -1, "timestamp": 1, "output_length": 5, "input_length": 64, )";
  EXPECT_TRUE(parse_trace(bailian + R"("hash_ids": [1, 2, 3, 4]})", "t")) << "its 16 tokens";
  EXPECT_TRUE(parse_trace(bailian + R"("hash_ids": [1, 2]})", "t", {}, {.tokens_per_hash = 32}))
      << "what the user says comes first";
  EXPECT_FALSE(parse_trace(bailian + R"("hash_ids": [1, 2, 3, 4]})", "t", {}, {.tokens_per_hash = 32}));
}

TEST(TraceFile, EverythingIsBounded) {
  const std::string three = std::string(kLine) + "\n" + kLine + "\n" + kLine + "\n";
  EXPECT_TRUE(parse_trace(three, "t", {.line_bytes = 200, .requests = 3, .hash_ids = 6}).has_value());
  EXPECT_THAT(parse_trace(three, "t", {.requests = 2}).error().message, HasSubstr("t:3: more than 2 requests"));
  EXPECT_THAT(parse_trace(three, "t", {.hash_ids = 5}).error().message, HasSubstr("t:3: hash_ids: more than 5"));
  EXPECT_THAT(parse_trace(three, "t", {.line_bytes = 50}).error().message, HasSubstr("t:1: longer than 50 bytes"));
}

/// A temporary folder of this test.
class TraceFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = (std::filesystem::path(::testing::TempDir()) / (std::string("kvist-trace-") + info->name())).string();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};

Trace random_trace(RandomStream& random, std::int64_t requests) {
  Trace trace;
  Duration at{};
  for (std::int64_t i = 0; i < requests; ++i) {
    at += random.uniform() < 0.5 ? Duration(milliseconds(random.uniform_int(0, 5'000)))
                                 : Duration(microseconds(random.uniform_int(0, 5'000)));
    TraceRequest request{at,
                         static_cast<std::uint32_t>(random.uniform_int(1, 20'000)),
                         static_cast<std::uint32_t>(random.uniform_int(0, 2'000)),
                         {}};
    request.hash_ids.resize((request.input_tokens + kTokensPerHash - 1) / kTokensPerHash);
    for (std::uint64_t& id : request.hash_ids) id = random.next() >> random.uniform_int(0, 63);
    trace.requests.push_back(std::move(request));
  }
  return trace;
}

TEST_F(TraceFileTest, WhatIsWrittenIsReadBack) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream random(seed);
    const Trace trace = random_trace(random, seed == 1 ? 5'000 : 50);  // the first is longer than one read
    EXPECT_EQ(parse_trace(trace_text(trace), "text").value(), trace);
    ASSERT_TRUE(write_trace(trace, path_).has_value());
    EXPECT_EQ(load_trace(path_).value(), trace);
  }
}

TEST_F(TraceFileTest, AFileIsReadAsItsText) {
  std::ofstream(path_) << kLine << "\n" << kLine;  // no end of line at the end
  EXPECT_EQ(load_trace(path_)->requests.size(), 2U);
  std::ofstream(path_) << kLine << "\n{}\n";
  EXPECT_THAT(load_trace(path_).error().message, StartsWith(path_ + ":2: timestamp"));
  std::ofstream(path_) << kLine << "\n" << std::string(1'000'000, ' ');  // a line that does not end
  EXPECT_THAT(load_trace(path_, {.line_bytes = 1'000}).error().message, StartsWith(path_ + ":2: longer than 1000"));
  EXPECT_EQ(load_trace(path_ + ".none").error().code, ErrorCode::kNotFound);
  std::ofstream(path_) << "\xEF\xBB\xBF" << kLine;  // as Windows writes it
  EXPECT_EQ(load_trace(path_)->requests.size(), 1U);
  EXPECT_EQ(parse_trace("\xEF\xBB\xBF" + std::string(kLine), "t")->requests.size(), 1U);
}

TEST_F(TraceFileTest, APipeIsRefused) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(load_trace(path_).error().message, HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace kvist::workload::trace_file_test
