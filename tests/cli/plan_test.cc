#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/command_test.h"
#include "kvist/perfmodel/coefficients.h"

namespace kvist::cli::plan_test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

/// A sweep of one small worker whose levels take seconds of virtual time.
class PlanCommandTest : public CommandTest {
 protected:
  PlanCommandTest() {
    sweep_ = write("sweep.yaml", R"(
name: small
deployment:
  workers:
    count: 1
    max_batch_size: 16
    profile: {gpu: h200, model: llama-3.1-70b-fp8, engine: trtllm}
    output_length: {mean_tokens: 60, standard_deviation_tokens: 10}
workload: {starters: 3, starter_tokens_min: 300, starter_tokens_max: 400, max_tokens: 128}
method: {warmup: 10 s, snapshots: 2, snapshot_interval: 15 s, window: 15 s}
modes: [round_robin]
levels: [4, 8]
)");
    reference_ = write("measured.json", R"({"source": "test", "levels": [
{"concurrency": 4, "round_robin": {"tpot_p50_ms": 30, "ttft_p50_ms": 150}},
{"concurrency": 8, "round_robin": {"tpot_p50_ms": 31, "ttft_p50_ms": 160}}]})");
  }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::string sweep_;
  std::string reference_;
};

TEST_F(PlanCommandTest, CapacityPrintsAndWritesThePlan) {
  const Ran ran = kvist({"plan", "capacity", "-f", sweep_, "--slo", "tpot_p95=26ms", "--users", "40", "--max-users",
                         "64", "--seeds", "3", "--json", folder_ + "/plan.json", "--html", folder_ + "/plan.html"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("1 worker, 1 GPU, 16 batch slots; within TPOT p95 <= 26 ms, Errors <= 5 %"),
                             ContainsRegex("round_robin +[1-9]"), HasSubstr("Workers for a number of users")));
  EXPECT_THAT(read(folder_ + "/plan.json"), HasSubstr("\"slo\": \"tpot_p95=26ms,error=5%\""));
  EXPECT_THAT(read(folder_ + "/plan.html"), HasSubstr("<svg"));
}

TEST_F(PlanCommandTest, CapacityRefusesWhatItCannotAnswer) {
  const auto error_of = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "capacity", "-f", sweep_});
    const Ran ran = kvist(more);
    EXPECT_EQ(ran.status, 1);
    return ran.err;
  };
  EXPECT_THAT(error_of({"--slo", "ttft_p95=1"}), HasSubstr("expected a duration above 0 with its unit"));
  EXPECT_THAT(error_of({"--slo", "ttft_p95=1s", "--seeds", "2"}),
              HasSubstr("--seeds: 2 per level; expected 3 to 1000"));
  EXPECT_THAT(error_of({"--slo", "ttft_p95=1s", "--confidence", "100"}), HasSubstr("--confidence: 100 %"));
  EXPECT_THAT(error_of({"--slo", "ttft_p95=1s", "--confidence", "nan"}), HasSubstr("--confidence: nan %"));
  EXPECT_THAT(error_of({"--slo", "ttft_p95=1s", "--max-users", "0"}), HasSubstr("--max-users: 0; expected at least 1"));
  EXPECT_THAT(error_of({"--slo", "ttft_p95=1s", "--mode", "fastest"}), HasSubstr("fastest"));
  EXPECT_THAT(error_of({"--slo", "ttft_p95=1s", "--users", "9999"}),
              HasSubstr("--users: 9999 users at once; the gateway's max_in_flight allows 1 to 4096"));
}

TEST_F(PlanCommandTest, CapacityStaysWithinAnOpenTrace) {
  std::string requests;
  for (int i = 0; i < 200; ++i) {
    requests += "{\"timestamp\": " + std::to_string(1'000 * i) +
                ", \"input_length\": 600, \"output_length\": 20, \"hash_ids\": [1, " + std::to_string(i + 2) + "]}\n";
  }
  write("trace.jsonl", requests);
  const std::string sweep = write("replay.yaml", R"(
name: replay
deployment: {workers: {count: 1, max_batch_size: 256}}
workload: {trace: {file: trace.jsonl, loop: open}}
method: {warmup: 10 s, snapshots: 1, snapshot_interval: 30 s, window: 30 s}
modes: [kv]
levels: [1]
)");
  const std::vector<std::string> plan = {"plan", "capacity", "-f", sweep, "--slo", "ttft_p95=60s", "--seeds", "3"};
  const Ran ran = kvist(plan);
  ASSERT_EQ(ran.status, 0) << ran.err;  // 200 s are 500 % of 40 s
  EXPECT_THAT(ran.out, AllOf(ContainsRegex("kv +500 +500 or more"), HasSubstr("Above 500 users the trace ends before"),
                             HasSubstr("intervals are by Student's t over 10 blocks of time")));
  std::vector<std::string> more = plan;
  more.insert(more.end(), {"--users", "501"});
  EXPECT_THAT(kvist(more).err, AllOf(HasSubstr("at 501 percent of that it ends before"), HasSubstr("at most 500")));
}

TEST_F(PlanCommandTest, MemoryTakesTheDeploymentOfASweep) {
  const Ran ran = kvist({"plan", "memory", "-f", sweep_});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("70B Instruct, FP8 on NVIDIA H200"));
  const std::string misspelt = write("misspelt.yaml", "deployments: {workers: {count: 1}}\n");
  EXPECT_THAT(kvist({"plan", "memory", "-f", misspelt}).err, HasSubstr("deployment"));
}

TEST_F(PlanCommandTest, FilesThatCannotBeWrittenAreFoundBeforeAnythingIsComputed) {
  const std::string nowhere = folder_ + "/none/file";
  const auto error_of = [&](const std::vector<std::string>& arguments) {
    const Ran ran = kvist(arguments);
    EXPECT_EQ(ran.status, 1);
    EXPECT_THAT(ran.out, testing::IsEmpty());
    return ran.err;
  };
  // The inputs are missing too: outputs come first.
  const std::string missing = folder_ + "/missing.yaml";
  const std::string refused = nowhere + ": cannot be written: No such file or directory";
  for (const char* option : {"--json", "--html", "--markdown"}) {
    EXPECT_THAT(error_of({"plan", "capacity", "-f", missing, "--slo", "error=1%", option, nowhere}),
                HasSubstr(refused));
  }
  EXPECT_THAT(error_of({"plan", "capacity", "-f", missing, "--slo", "error=1%", "--markdown", folder_}),
              HasSubstr(folder_ + ": cannot be written: it is a folder"));
  EXPECT_THAT(error_of({"fit", "--reference", missing, "--out", nowhere}), HasSubstr(refused));
  EXPECT_THAT(error_of({"fit", "--reference", missing, "--out", folder_ + "/o", "--json", nowhere}),
              HasSubstr(refused));
  EXPECT_THAT(error_of({"what-if", missing, "-f", missing, "--json", nowhere}), HasSubstr(refused));
}

TEST_F(PlanCommandTest, WhatIfRefusesNumbersOutOfTheirRangeBeforeItReadsTheRecord) {
  const auto error_of = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"what-if", folder_ + "/none.jsonl", "-f", sweep_});
    const Ran ran = kvist(more);
    EXPECT_EQ(ran.status, 1);
    return ran.err;
  };
  EXPECT_THAT(error_of({"--workers", "1025"}), HasSubstr("--workers: 1025; expected 1 to 1024"));
  EXPECT_THAT(error_of({"--workers", "0"}), HasSubstr("--workers: 0; expected 1 to 1024"));
  EXPECT_THAT(error_of({"--warmup", "nan"}), HasSubstr("--warmup: nan % of the record; expected 0 to 90"));
  EXPECT_THAT(error_of({"--max-error", "nan"}), HasSubstr("--max-error: nan %; expected above 0"));
  EXPECT_THAT(error_of({"--max-error=-5"}), HasSubstr("--max-error: -5 %; expected above 0"));
  EXPECT_THAT(error_of({"--seeds", "0"}), HasSubstr("--seeds: 0; expected 1 to 1000"));
}

TEST_F(PlanCommandTest, WhatIfReadsWhatDynamoWrote) {
  const std::string trace = KVIST_SOURCE_DIR "/tests/golden/traces/dynamo-1.6.1-requests.jsonl";
  const std::string fleet = folder_ + "/fleet.yaml";
  std::ofstream(fleet) << "deployment: {workers: {count: 3, block_size: 32, kv_blocks: 11500, max_batch_size: 64, "
                          "max_num_tokens: 2048, step_time: {fixed: 10 ms, per_prefill_token: 94 us, "
                          "per_sequence: 0 us, per_kv_token: 40 ns}}}\n";
  const auto what_if = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"what-if", trace, "-f", fleet, "--warmup", "0", "--seeds", "1", "--max-error", "100"});
    return kvist(more);
  };
  const Ran as_dynamo = what_if({"--mode", "kv"});
  ASSERT_EQ(as_dynamo.status, 0) << as_dynamo.err;
  EXPECT_THAT(as_dynamo.out, AllOf(HasSubstr("54 requests over"), HasSubstr("39 of them after an earlier answer"),
                                   HasSubstr("3 workers  dynamo ")));
  const Ran in_turns = what_if({"--recorded-mode", "round_robin"});
  ASSERT_EQ(in_turns.status, 0) << in_turns.err;
  EXPECT_THAT(in_turns.out, HasSubstr("3 workers  round_robin "));
  EXPECT_THAT(what_if({"--recorded-mode", "best"}).err, HasSubstr("best"));

  const std::string own = folder_ + "/own.jsonl";
  std::ofstream(own) << R"({"kvist_record":1,"recording":1,"part":0,"model":"m","tokens_per_hash":16,"workers":["a"]})"
                     << "\n"
                     << R"({"timestamp":0,"input_length":5,"output_length":1,"hash_ids":[],"mode":"kv",)"
                     << R"("outcome":"completed","worker":"a","latency_ms":1})"
                     << "\n";
  EXPECT_THAT(kvist({"what-if", own, "-f", fleet, "--recorded-mode", "kv"}).err,
              HasSubstr("--recorded-mode: " + own + " says itself how each request was routed"));

  const std::string apart = folder_ + "/apart.jsonl";
  std::ofstream(apart) << R"({"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":9,)"
                       << R"("request":{"request_received_ms":1,"output_tokens":1,"worker":{"prefill_worker_id":1,)"
                       << R"("decode_worker_id":2},"replay":{"trace_block_size":4,"input_length":3,)"
                       << R"("input_sequence_hashes":[5]}}})"
                       << "\n";
  EXPECT_THAT(kvist({"what-if", apart, "-f", fleet}).err,
              HasSubstr("1 of 1 prompts were computed by other workers than gave the answers"));
}

TEST_F(PlanCommandTest, FitWritesAReadableProfile) {
  const std::string out = folder_ + "/own.yaml";
  const Ran ran = kvist({"fit", "--reference", reference_, "--sweep", sweep_, "--free", "launch.fixed,intake.fixed",
                         "--hold-out", "8", "--seeds", "1", "--out", out});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("1 levels fitted, 1 held out"), HasSubstr("launch.fixed")));
  const auto coefficients = perfmodel::Coefficients::parse(read(out), out);
  ASSERT_TRUE(coefficients) << coefficients.error().message;
  EXPECT_EQ(coefficients->find("launch.fixed")->origin.kind, perfmodel::OriginKind::kFitted);
  EXPECT_GT(*coefficients->get("launch.fixed"), 6);  // 30 ms measured, about 20 with the profile as it is
}

TEST_F(PlanCommandTest, FitRefusesWhatItCannotFit) {
  const auto error_of = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"fit", "--out", folder_ + "/own.yaml"});
    const Ran ran = kvist(more);
    EXPECT_EQ(ran.status, 1);
    return ran.err;
  };
  EXPECT_THAT(error_of({}), HasSubstr("one of --reference FILE and --database FILE"));
  EXPECT_THAT(error_of({"--reference", reference_}), HasSubstr("--sweep FILE does"));
  EXPECT_THAT(error_of({"--reference", reference_, "--sweep", sweep_, "--run", "3"}),
              HasSubstr("--run is of a --database"));
  EXPECT_THAT(error_of({"--database", folder_ + "/none.sqlite"}), HasSubstr("none.sqlite"));
  EXPECT_THAT(error_of({"--reference", reference_, "--sweep", sweep_, "--hold-out", "5"}),
              HasSubstr("has no level 5; it has 4, 8"));
  EXPECT_THAT(error_of({"--reference", reference_, "--sweep", sweep_, "--free", "launch.fixd"}),
              HasSubstr("no coefficient \"launch.fixd\""));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/own.yaml"));
}

}  // namespace
}  // namespace kvist::cli::plan_test
