// vLLM's histograms, in virtual time.
#include "kvist/worker/request_metrics.h"

#include <gtest/gtest.h>

#include "kvist/telemetry/exposition.h"

namespace kvist::worker::request_metrics_test {
namespace {

using engine::FinishReason;
using std::chrono::milliseconds;

const TimePoint kStart = TimePoint(std::chrono::seconds(1'000));

class RequestMetricsTest : public ::testing::Test {
 protected:
  void submit(std::uint64_t id, std::uint64_t prompt, int at_ms) {
    metrics.on_submitted(RequestId(id), RequestId(prompt), 100, kStart + milliseconds(at_ms));
  }
  void admit(std::uint64_t id, int at_ms) { metrics.on_admitted({RequestId(id), kStart + milliseconds(at_ms)}); }

  /// One step's tokens of one request.
  void step(std::uint64_t id, std::uint32_t tokens, int at_ms, std::optional<FinishReason> finish = {}) {
    engine::RequestOutput output;
    output.id = RequestId(id);
    output.finish = finish;
    output.prompt_tokens = 50;
    output.cached_tokens = 30;
    for (std::uint32_t i = 0; i < tokens; ++i) output.tokens.push_back(TokenId(7));
    output.output_tokens = so_far[id] += tokens;
    metrics.on_outputs({&output, 1}, kStart + milliseconds(at_ms));
  }

  /// The value of a series called `name`, which may have labels of its own behind it.
  double value(const std::string& name, const std::string& label = "", const std::string& of = "") {
    const std::string page = telemetry::expose(
        [this](telemetry::MetricsPage& to) { metrics.write(to, {{"model_name", "m"}, {"engine", "0"}}); });
    const auto samples = telemetry::MetricSamples::parse(page);
    EXPECT_TRUE(samples);
    return label.empty() ? samples->sum(name).value_or(-1) : samples->sum(name, label, of).value_or(-1);
  }
  double count(const std::string& name) { return value("vllm:" + name + "_count"); }
  double sum(const std::string& name) { return value("vllm:" + name + "_sum"); }

  RequestMetrics metrics{1'000};
  std::map<std::uint64_t, std::uint32_t> so_far;
};

TEST_F(RequestMetricsTest, ARequestsTimesAreThoseOfItsPhases) {
  submit(1, 1, 0);
  admit(1, 100);
  step(1, 1, 400);
  step(1, 1, 430);
  step(1, 3, 500);
  step(1, 1, 700, FinishReason::kStop);
  EXPECT_EQ(sum("time_to_first_token_seconds"), 0.4);
  EXPECT_EQ(count("inter_token_latency_seconds"), 3) << "per step that brings tokens, as vLLM counts";
  EXPECT_NEAR(sum("inter_token_latency_seconds"), 0.3, 1e-12);
  EXPECT_EQ(value("vllm:inter_token_latency_seconds_bucket", "le", "0.025"), 0);
  EXPECT_EQ(value("vllm:inter_token_latency_seconds_bucket", "le", "0.05"), 1);
  EXPECT_EQ(value("vllm:inter_token_latency_seconds_bucket", "le", "0.075"), 2);
  EXPECT_EQ(sum("request_queue_time_seconds"), 0.1);
  EXPECT_NEAR(sum("request_prefill_time_seconds"), 0.3, 1e-12);
  EXPECT_NEAR(sum("request_decode_time_seconds"), 0.3, 1e-12);
  EXPECT_NEAR(sum("request_inference_time_seconds"), 0.6, 1e-12);
  EXPECT_EQ(sum("e2e_request_latency_seconds"), 0.7);
  EXPECT_NEAR(sum("request_time_per_output_token_seconds"), 0.06, 1e-12) << "five tokens after the first";
  EXPECT_EQ(sum("request_prompt_tokens"), 50);
  EXPECT_EQ(sum("request_generation_tokens"), 6);
  EXPECT_EQ(sum("request_params_max_tokens"), 100);
  EXPECT_EQ(sum("request_prefill_kv_computed_tokens"), 20);
  EXPECT_EQ(count("iteration_tokens_total"), 4);
  EXPECT_EQ(sum("iteration_tokens_total"), 56) << "the prompt with its first token";
  EXPECT_EQ(metrics.finish_counts().stop, 1U);
}

TEST_F(RequestMetricsTest, BoundsAreVllms) {
  submit(1, 1, 0);
  step(1, 1, 1, FinishReason::kLength);
  EXPECT_EQ(value("vllm:time_to_first_token_seconds_bucket", "le", "0.001"), 1) << "a value at a bound is below it";
  EXPECT_EQ(value("vllm:time_to_first_token_seconds_bucket", "le", "2560"), 1);
  EXPECT_EQ(value("vllm:e2e_request_latency_seconds_bucket", "le", "7680"), 1);
  EXPECT_EQ(value("vllm:request_prompt_tokens_bucket", "le", "20"), 0);
  EXPECT_EQ(value("vllm:request_prompt_tokens_bucket", "le", "50"), 1);
  EXPECT_EQ(value("vllm:request_prompt_tokens_bucket", "le", "1000"), 1);
  EXPECT_EQ(value("vllm:request_prompt_tokens_bucket", "le", "2000"), -1) << "the context is the end";
  EXPECT_EQ(value("vllm:iteration_tokens_total_bucket", "le", "64"), 1);
}

TEST_F(RequestMetricsTest, AnswersToOnePromptAreOneInParamsAndTheLongestCounts) {
  for (const std::uint64_t id : {1, 2, 3}) submit(id, 1, 0);
  submit(4, 4, 0);
  step(1, 5, 10, FinishReason::kLength);
  step(2, 9, 10, FinishReason::kLength);
  EXPECT_EQ(count("request_params_n"), 0);
  step(4, 2, 10, FinishReason::kStop);
  EXPECT_EQ(sum("request_params_n"), 1);
  step(3, 1, 10, FinishReason::kStop);
  EXPECT_EQ(count("request_params_n"), 2);
  EXPECT_EQ(sum("request_params_n"), 4);
  EXPECT_EQ(sum("request_max_num_generation_tokens"), 11);
  EXPECT_EQ(sum("request_generation_tokens"), 17);
}

TEST_F(RequestMetricsTest, AbortedRequestsLeaveNoTimesAndStopStringsDo) {
  submit(1, 1, 0);
  step(1, 1, 10);
  step(1, 0, 20, FinishReason::kAborted);
  EXPECT_EQ(metrics.finish_counts().aborted, 1U);
  EXPECT_EQ(count("e2e_request_latency_seconds"), 0);
  EXPECT_EQ(count("request_params_n"), 0);
  submit(2, 2, 0);
  step(2, 1, 10);
  step(2, 1, 30);
  metrics.on_stopped(RequestId(2));
  step(2, 0, 40, FinishReason::kAborted);
  EXPECT_EQ(metrics.finish_counts().stop, 1U);
  EXPECT_EQ(metrics.finish_counts().aborted, 1U) << "the engine was only told to stop";
  EXPECT_NEAR(sum("e2e_request_latency_seconds"), 0.03, 1e-12);
}

}  // namespace
}  // namespace kvist::worker::request_metrics_test
