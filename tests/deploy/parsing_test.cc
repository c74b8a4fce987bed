// What the deployer reads from the parts it started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/deploy/deployment_client.h"
#include "kvist/deploy/ready_line.h"
#include "kvist/deploy/worker_metrics.h"

namespace kvist::deploy::parsing_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ReadyLineTest, NamesThePorts) {
  EXPECT_EQ(parse_ready_line("ready http=8000 admin=8001 kv_events=5557 kv_replay=5558").value(),
            (ReadyPorts{8000, 8001, 5557, 5558}));
  EXPECT_EQ(parse_ready_line("ready http=8000").value(), (ReadyPorts{8000, 0, 0, 0}));
  EXPECT_EQ(parse_ready_line("ready http=8000 metrics=9000").value(), (ReadyPorts{8000, 0, 0, 0}));
}

TEST(ReadyLineTest, AnythingElseIsRefusedAndQuoted) {
  for (const char* line : {"", "ready", "ready kv_events=1", "steady http=1", "readyhttp=1", "ready http=",
                           "ready http=0", "ready http=70000", "ready http=80x", "ready http", "ready  http=80"}) {
    const auto ports = parse_ready_line(line);
    ASSERT_FALSE(ports.has_value()) << line;
    EXPECT_THAT(ports.error().message, HasSubstr('"' + std::string(line) + '"'));
  }
}

TEST(GatewayStatusTest, ReadsWhatItNeeds) {
  const auto status = parse_gateway_status(
      R"({"mode":"kv","in_flight":3,"version":"1","workers":[
           {"name":"a","url":"u","healthy":true,"in_flight":2,"indexed_blocks":100,"index_exact":true},
           {"name":"b","url":"u","healthy":false,"in_flight":1,"indexed_blocks":0,"index_exact":true}]})");
  ASSERT_TRUE(status.has_value()) << status.error().message;
  EXPECT_EQ(status->mode, "kv");
  EXPECT_EQ(status->in_flight, 3U);
  ASSERT_EQ(status->workers.size(), 2U);
  EXPECT_EQ(status->workers[0].indexed_blocks, 100U);
  EXPECT_FALSE(status->workers[1].healthy);
}

TEST(GatewayStatusTest, NamesTheFieldThatIsWrong) {
  const auto error = [](const char* json) {
    const auto status = parse_gateway_status(json);
    return status ? "no error" : status.error().message;
  };
  EXPECT_THAT(error("not json"), HasSubstr("/admin/status"));
  EXPECT_THAT(error("[]"), HasSubstr("/admin/status"));
  EXPECT_THAT(error(R"({"mode":"kv","workers":[]})"), HasSubstr("in_flight"));
  EXPECT_THAT(error(R"({"mode":"kv","in_flight":-1,"workers":[]})"), HasSubstr("in_flight"));
  EXPECT_THAT(error(R"({"mode":"kv","in_flight":0,"workers":[1]})"),
              HasSubstr("workers[0]: expected an object, got 1"));
  EXPECT_THAT(error(R"({"mode":"kv","in_flight":0,"workers":[{"name":"a","healthy":1}]})"), HasSubstr("healthy"));
}

constexpr const char* kPage =
    "process_start_time_seconds 1763692800.5\n"
    "vllm:num_requests_running{model_name=\"m\"} 7\n"
    "vllm:num_requests_waiting{model_name=\"m\"} 2\n"
    "vllm:kv_cache_usage_perc{model_name=\"m\"} 0.5\n"
    "vllm:prefix_cache_queries_total{model_name=\"m\"} 1000\n"
    "vllm:prefix_cache_hits_total{model_name=\"m\"} 900\n"
    "vllm:prompt_tokens_total{model_name=\"m\"} 1000\n"
    "vllm:generation_tokens_total{model_name=\"m\"} 300\n"
    "vllm:num_preemptions_total{model_name=\"m\"} 1\n";

TEST(WorkerMetricsTest, ReadsAPageOfAnotherEngine) {
  const auto metrics = read_worker_metrics("w", kPage);
  ASSERT_TRUE(metrics.has_value()) << metrics.error().message;
  EXPECT_EQ(metrics->worker, "w");
  EXPECT_EQ(metrics->process_start_time_s, 1763692800.5);
  EXPECT_EQ(metrics->running, 7);
  EXPECT_EQ(metrics->waiting, 2);
  EXPECT_EQ(metrics->kv_usage, 0.5);
  EXPECT_EQ(metrics->prefix_hit_tokens, 900);
  EXPECT_EQ(metrics->generated_tokens, 300);
  EXPECT_EQ(metrics->preemptions, 1);
  EXPECT_FALSE(metrics->prefilled_tokens.has_value()) << "a counter that is not there is nothing, not zero";
  EXPECT_FALSE(metrics->draft_tokens.has_value());
  EXPECT_FALSE(metrics->decode_steps.has_value());
}

TEST(WorkerMetricsTest, OfDataParallelRanksCountsAddUpAndSharesDoNot) {
  const auto metrics = read_worker_metrics("w", std::string(kPage) +
                                                    "vllm:num_requests_running{engine=\"1\"} 3\n"
                                                    "vllm:kv_cache_usage_perc{engine=\"1\"} 0.9\n");
  ASSERT_TRUE(metrics.has_value()) << metrics.error().message;
  EXPECT_EQ(metrics->running, 10);
  EXPECT_DOUBLE_EQ(metrics->kv_usage, 0.7);
}

TEST(WorkerMetricsTest, ReadsKvistsOwnCountersAndSpeculation) {
  const auto metrics = read_worker_metrics(
      "w", std::string(kPage) +
               "kvist_worker_prefilled_tokens_total 100\nkvist_worker_evicted_blocks_total 4\n"
               "vllm:spec_decode_num_draft_tokens_total 50\nvllm:spec_decode_num_accepted_tokens_total 30\n"
               "kvist_worker_steps_total{kind=\"prefill\"} 5\nkvist_worker_steps_total{kind=\"mixed\"} 6\n"
               "kvist_worker_steps_total{kind=\"decode\"} 70\n");
  ASSERT_TRUE(metrics.has_value()) << metrics.error().message;
  EXPECT_EQ(metrics->prefilled_tokens, 100);
  EXPECT_EQ(metrics->evicted_blocks, 4);
  EXPECT_EQ(metrics->accepted_draft_tokens, 30);
  EXPECT_EQ(metrics->prefill_steps, 5);
  EXPECT_EQ(metrics->mixed_steps, 6);
  EXPECT_EQ(metrics->decode_steps, 70);
}

TEST(WorkerMetricsTest, NamesTheWorkerAndTheMetricThatIsMissing) {
  const auto metrics = read_worker_metrics("w-3", "vllm:num_requests_running 1\n");
  ASSERT_FALSE(metrics.has_value());
  EXPECT_THAT(metrics.error().message, AllOf(HasSubstr("w-3"), HasSubstr("process_start_time_seconds")));
}

}  // namespace
}  // namespace kvist::deploy::parsing_test
