#include "kvist/workload/recorded_traffic.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace kvist::workload::recorded_traffic_test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string head(int recording = 5, int part = 0) {
  return fmt::format(R"({{"kvist_record":1,"recording":{},"part":{},"started_unix_ms":0,"model":"m",)"
                     R"("tokens_per_hash":16,"workers":["a","b"]}})"
                     "\n",
                     recording, part);
}

struct Row {
  double at_ms = 0;
  double latency_ms = 0;
  int input = 0;
  int output = 0;
  std::string ids = {};
  std::string session = {};
  std::string outcome = "completed";
  std::string worker = "b";
  std::string cached = {};
};
std::string line(const Row& row) {
  return fmt::format(R"({{"timestamp":{},"input_length":{},"output_length":{},"hash_ids":[{}]{},"mode":"kv",)"
                     R"("outcome":"{}","worker":"{}","stream":true,"ttft_ms":3.5,"tpot_ms":1.25,"latency_ms":{}{}}})"
                     "\n",
                     row.at_ms, row.input, row.output, row.ids,
                     row.session.empty() ? "" : ",\"session_id\":" + row.session, row.outcome, row.worker,
                     row.latency_ms, row.cached.empty() ? "" : ",\"cached_tokens\":" + row.cached);
}

std::vector<std::string> follow_ups_of(const Trace& trace) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const auto& after = trace.requests[i].after;
    if (after) found.push_back(fmt::format("{} <- {} + {}", i, after->request, to_milliseconds(*after->pause)));
  }
  return found;
}

TEST(RecordedTraffic, IsSortedByArrivalWithWhatWasObserved) {
  const auto traffic = parse_record(
      head() + line({.at_ms = 7, .latency_ms = 2, .input = 20, .output = 4, .ids = "1"}) +
          line({.at_ms = 0, .latency_ms = 90, .input = 40, .output = 9, .ids = "1,2", .outcome = "client_gone"}) +
          line({.at_ms = 1, .input = 0, .outcome = "refused"}) +
          line({.at_ms = 2, .input = 40, .outcome = "timed_out", .worker = ""}) + "{\"timestamp\": 8, \"inp",
      "r");
  ASSERT_TRUE(traffic.has_value()) << traffic.error().message;
  EXPECT_EQ(traffic->head.tokens_per_hash, 16U);
  EXPECT_THAT(traffic->head.workers, ElementsAre("a", "b"));
  ASSERT_EQ(traffic->trace.requests.size(), 2U);
  EXPECT_EQ(traffic->unserved, 2U) << "one was held until its time was over";
  EXPECT_EQ(traffic->trace.requests[0].input_tokens, 40U);
  EXPECT_FALSE(traffic->observed[0].completed);
  EXPECT_TRUE(traffic->observed[1].completed);
  EXPECT_EQ(traffic->observed[1].mode, spec::RoutingMode::kKv);
  EXPECT_EQ(traffic->observed[1].ttft_ms, 3.5);
  EXPECT_EQ(traffic->observed[1].tpot_ms, 1.25);
  EXPECT_EQ(traffic->observed[1].cached_tokens, std::nullopt);
  EXPECT_EQ(parse_trace(head() + line({.input = 20, .output = 4}), "t").value().tokens_per_hash, 16U)
      << "a record is a trace, too";
}

TEST(RecordedTraffic, ASessionGoesOnFromWhatItsPromptBeginsWith) {
  const auto traffic = parse_record(
      head() + line({.at_ms = 0, .latency_ms = 100, .input = 40, .output = 10, .ids = "1,2", .session = "7"}) +
          line({.at_ms = 50, .latency_ms = 100, .input = 60, .output = 10, .ids = "1,2,3", .session = "7"}) +
          line({.at_ms = 160, .latency_ms = 10, .input = 80, .output = 10, .ids = "1,2,3,4", .session = "7"}) +
          line({.at_ms = 200, .latency_ms = 10, .input = 60, .output = 10, .ids = "1,2,9", .session = "7"}) +
          line({.at_ms = 300, .latency_ms = 10, .input = 60, .output = 10, .ids = "8", .session = "7"}) +
          line({.at_ms = 300, .latency_ms = 10, .input = 60, .output = 10, .ids = "1,2,3", .session = "6"}),
      "r");
  ASSERT_TRUE(traffic.has_value()) << traffic.error().message;
  // The second came while the first was under way: it did not wait. The fourth is another branch of the first.
  EXPECT_THAT(follow_ups_of(traffic->trace), ElementsAre("2 <- 1 + 10", "3 <- 0 + 100"));
}

TEST(RecordedTraffic, WithoutSessionsPromptsTellWhatGoesOn) {
  const auto traffic = parse_record(
      head() + line({.at_ms = 0, .latency_ms = 10, .input = 40, .output = 10, .ids = "1,2"}) +
          line({.at_ms = 1, .latency_ms = 20, .input = 40, .output = 10, .ids = "1,2"}) +
          line({.at_ms = 30, .latency_ms = 10, .input = 60, .output = 10, .ids = "1,2,3"}) +   // after either
          line({.at_ms = 31, .latency_ms = 10, .input = 60, .output = 10, .ids = "1,2,4"}) +   // after the other
          line({.at_ms = 32, .latency_ms = 10, .input = 60, .output = 10, .ids = "1,2,5"}) +   // none is left
          line({.at_ms = 50, .latency_ms = 10, .input = 65, .output = 10, .ids = "1,2,4,6"}),  // no room for the answer
      "r");
  ASSERT_TRUE(traffic.has_value()) << traffic.error().message;
  EXPECT_THAT(follow_ups_of(traffic->trace), ElementsAre("2 <- 1 + 9", "3 <- 0 + 21"));
}

// Blocks of 16. The prompt before has 40 tokens, so two complete blocks, and the answer ends the third.
TEST(RecordedTraffic, CachedTokensTellWhetherTheAnswerIsInTheNextPrompt) {
  const auto session = [](int number, const std::string& cached, const Row& then = {}) {
    const std::string name = fmt::to_string(number);
    return line({.at_ms = 0, .latency_ms = 1, .input = 40, .output = 20, .ids = "1,2", .session = name}) +
           line({.at_ms = 5.0 + number,
                 .latency_ms = 1,
                 .input = then.input > 0 ? then.input : 80,
                 .output = 1,
                 .ids = "1,2,3",
                 .session = name,
                 .worker = then.worker,
                 .cached = cached});
  };
  const auto answers_in_prompts = [](const std::string& lines) {
    const auto traffic = parse_record(head() + lines, "r");
    EXPECT_TRUE(traffic.has_value());
    std::vector<bool> found;
    for (const TraceRequest& request : traffic->trace.requests)
      if (request.after) found.push_back(request.after->has_answer);
    return found;
  };
  EXPECT_THAT(answers_in_prompts(session(1, "48") + session(2, "32") + session(3, "64")),
              ElementsAre(true, false, true));
  EXPECT_THAT(answers_in_prompts(session(1, "")), ElementsAre(true)) << "nothing is known of any";
  // What tells nothing: memory that was lost, another worker, a prompt without room for the answer's block.
  const std::string untold = session(4, "16") + session(5, "32", {.worker = "a"}) + session(6, "32", {.input = 48});
  EXPECT_THAT(answers_in_prompts(session(1, "48") + untold), ElementsAre(true, true, true, true));
  EXPECT_THAT(answers_in_prompts(session(1, "32") + untold), ElementsAre(false, false, false, false));
}

TEST(RecordedTraffic, ErrorsNameTheLine) {
  const auto error = [](const std::string& text) { return parse_record(text, "r").error().message; };
  EXPECT_THAT(error(line({.input = 5})), StartsWith("r:1: kvist_record: "));
  EXPECT_THAT(error("{\"kvist_record\":2}\n"),
              AllOf(StartsWith("r:1: "), HasSubstr("version 2; this program reads version 1")));
  EXPECT_THAT(error(head()), HasSubstr("holds no request"));
  EXPECT_THAT(error(head() + line({.input = 0})), StartsWith("r:2: input_length: "));
  EXPECT_THAT(error(head() + "{\"timestamp\": 1, \"outcome\": \"completed\", \"mode\": \"best\"}\n"),
              AllOf(StartsWith("r:2: mode: "), HasSubstr("best")));
}

TEST(RecordedTraffic, TheFilesOfOneRecordingAreReadTogether) {
  const std::string folder = (std::filesystem::path(::testing::TempDir()) / "kvist-recorded-traffic").string();
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/t.jsonl";
  std::ofstream(path) << head(5, 2) << line({.at_ms = 9, .input = 20, .output = 1});
  std::ofstream(path + ".1") << head(5, 1) << line({.at_ms = 3, .input = 21, .output = 1});
  std::ofstream(path + ".2") << head(4, 8) << line({.at_ms = 5, .input = 22, .output = 1});
  const auto traffic = load_record(path);
  ASSERT_TRUE(traffic.has_value()) << traffic.error().message;
  ASSERT_EQ(traffic->trace.requests.size(), 2U) << "the third is another recording's";
  EXPECT_EQ(traffic->trace.requests[0].at, milliseconds(3));
  EXPECT_EQ(traffic->head.part, 1U);
  EXPECT_EQ(load_trace(path)->requests.size(), 2U);
  EXPECT_EQ(load_record(path + ".none").error().code, ErrorCode::kNotFound);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvist::workload::recorded_traffic_test
