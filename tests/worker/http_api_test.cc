#include "kvist/worker/http_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/base/version.h"
#include "raw_client.h"
#include "running_worker.h"

namespace kvist::worker::http_api_test {
namespace {

using testing::HasSubstr;

TEST(Errors, HaveTheirStatusAndNameTheCause) {
  RunningWorker worker;
  const auto expect = [&](const std::string& path, const std::string& body, int status, const std::string& text) {
    const net::HttpResponse response = worker.post(path, body);
    EXPECT_EQ(response.status, status) << body << " -> " << response.body;
    EXPECT_THAT(response.body, HasSubstr(text)) << body;
    EXPECT_TRUE(openai::parse_chunk(response.body)->error) << response.body;
  };
  expect("/v1/chat/completions", "{", 400, "not valid JSON");
  expect("/v1/chat/completions", R"({"model":"test-model"})", 400, R"("param":"messages")");
  expect("/v1/chat/completions", R"({"model":"gpt","messages":[{"role":"user","content":"x"}]})", 404,
         R"(model: \"gpt\" is not served here; this worker serves \"test-model\")");
  expect("/v1/chat/completions", chat_body("x", R"("best_of":2)"), 422, R"("param":"best_of")");
  expect("/v1/chat/completions", chat_body("x", R"("logit_bias":{"5":1})"), 422, R"("param":"logit_bias")");
  expect("/v1/chat/completions", chat_body("x", R"("max_tokens":5,"min_tokens":6)"), 400,
         "min_tokens: expected at most max_tokens, which is 5, got 6");
  expect("/v1/chat/completions", chat_body(std::string(2'100, 'x')), 400,
         "This model's maximum context length is 2048 tokens");
  expect("/v1/completions", completion_body(R"("")"), 400, "prompt: is empty");
  expect("/v1/completions", completion_body(R"(["a",""])"), 400, "prompt[1]: is empty");
  expect("/v1/completions", completion_body("[97,999999]"), 400, "prompt[1]: token 999999 is outside the vocabulary");
  expect("/nowhere", "{}", 404, "no such path: /nowhere; there are /detokenize, /health, ");
  expect("/v1/models", "{}", 405, "/v1/models takes GET, not POST");
  expect("/v1/models", "{}", 405, R"("type":"Method Not Allowed","param":null,"code":405)");
  EXPECT_EQ(worker.post("/v1/models", "{}").headers.find("Allow"), "GET");
  EXPECT_EQ(worker.get("/v1/completions").status, 405);
}

TEST(Errors, AFullQueueIs429WithRetryAfterAndNothingStaysBehind) {
  spec::WorkerSpec spec = slow_spec();
  spec.max_batch_size = 1;
  spec.max_waiting = 2;
  RunningWorker worker(spec);
  RawClient running(worker.port());
  running.post("/v1/chat/completions", chat_body("a", R"("stream":true,"ignore_eos":true)"));
  ASSERT_TRUE(worker.await_metric("vllm:num_requests_running", 1));
  RawClient waiting(worker.port());
  waiting.post("/v1/chat/completions", chat_body("b"));
  ASSERT_TRUE(worker.await_metric("vllm:num_requests_waiting", 1));
  // Two prompts, room for one: none of them is taken.
  const net::HttpResponse refused = worker.post("/v1/completions", completion_body(R"(["c","d"])"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.find("Retry-After"), "1");
  EXPECT_EQ(worker.metric("vllm:num_requests_waiting"), 1);
}

TEST(Errors, MoreAnswersThanCanEverWaitAreRefusedForGood) {
  spec::WorkerSpec spec = fast_spec();
  spec.max_waiting = 3;
  RunningWorker worker(spec);
  const std::string two = R"(["a","b"])";
  const auto refused = [&](const net::HttpResponse& response, const std::string& text) {
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_FALSE(response.headers.find("Retry-After")) << "it would be refused again";
    EXPECT_THAT(response.body, HasSubstr(text));
  };
  refused(worker.post("/v1/chat/completions", chat_body("x", R"("n":4)")),
          "n: 4 answers in one request, of which at most 3 can wait at this worker (max_waiting); send several");
  refused(worker.post("/v1/completions", completion_body(two, R"("n":2)")), "n: 4 answers");
  refused(worker.post("/v1/completions", completion_body(two, R"("best_of":2)")), "best_of: 4 answers");
  refused(worker.post("/v1/completions", completion_body(R"(["a","b","c","d"])")), "prompt: 4 answers");
  EXPECT_EQ(worker.post("/v1/chat/completions", chat_body("x", R"("n":3)")).status, 200);
  EXPECT_EQ(worker.metric("vllm:admission_rejections_total"), 0);
}

TEST(Errors, MoreLogProbabilitiesThanAreKeptForOneAnswerAreRefused) {
  RunningWorker worker;
  const std::string fields = R"("n":16,"max_tokens":2000,"logprobs":true,"top_logprobs":20)";
  const net::HttpResponse refused = worker.post("/v1/chat/completions", chat_body("x", fields));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body,
              HasSubstr("max_tokens: 672000 log probabilities in an answer that is not streamed, at most "
                        "524288 are given; with so many answers and tokens beside each, max_tokens may be "
                        "1560: ask for fewer, or stream"));
  EXPECT_THAT(refused.body, HasSubstr(R"("param":"max_tokens")"));
}

TEST(Api, ListsItsModel) {
  RunningWorker worker;
  const net::HttpResponse response = worker.get("/v1/models");
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, HasSubstr(R"("id":"test-model")"));
  EXPECT_THAT(response.body, HasSubstr(R"("max_model_len":2048)"));
}

TEST(Api, TellsHealthAndVersion) {
  RunningWorker worker;
  EXPECT_EQ(worker.get("/health").status, 200);
  EXPECT_EQ(worker.get("/ping").status, 200);
  EXPECT_EQ(worker.get("/version").body, fmt::format(R"({{"version":"{}"}})", kVersion));
}

TEST(Api, EchoesRequestIdsOrMakesThem) {
  RunningWorker worker;
  net::Headers headers;
  headers.add("X-Request-Id", "abc-1");
  const net::HttpResponse echoed = worker.call("POST", "/v1/chat/completions", chat_body("x"), headers);
  EXPECT_EQ(echoed.headers.find("X-Request-Id"), "abc-1");
  EXPECT_THAT(echoed.body, HasSubstr(R"("id":"chatcmpl-abc-1")"));
  const net::HttpResponse first = worker.get("/health");
  const net::HttpResponse second = worker.get("/health");
  ASSERT_TRUE(first.headers.find("X-Request-Id"));
  EXPECT_EQ(first.headers.find("X-Request-Id")->size(), 32U);
  EXPECT_NE(first.headers.find("X-Request-Id"), second.headers.find("X-Request-Id"));
  net::Headers unusable;
  unusable.add("X-Request-Id", std::string(200, 'x'));
  EXPECT_EQ(worker.call("GET", "/health", "", unusable).headers.find("X-Request-Id")->size(), 32U);
}

TEST(Api, TokenizesAndBack) {
  RunningWorker worker;
  EXPECT_EQ(worker.post("/tokenize", R"({"prompt":"hi"})").body,
            R"({"count":2,"max_model_len":2048,"tokens":[104,105],"token_strs":null})");
  EXPECT_EQ(worker.post("/detokenize", R"({"tokens":[104,105]})").body, R"({"prompt":"hi"})");
  EXPECT_EQ(worker.post("/detokenize", R"({"tokens":[226,130,104,240,159,145,105]})").body,
            "{\"prompt\":\"\uFFFDh\uFFFDi\"}")
      << "one for each broken character";
  const net::HttpResponse chat =
      worker.post("/tokenize", R"({"model":"test-model","messages":[{"role":"user","content":"hi"}]})");
  const Result<openai::ChunkView> answer =
      openai::parse_chunk(worker.post("/v1/chat/completions", chat_body("hi", R"("max_tokens":1)")).body);
  EXPECT_THAT(chat.body, HasSubstr(fmt::format(R"("count":{},)", answer->usage->prompt_tokens)));
  EXPECT_EQ(worker.post("/tokenize", R"({"model":"gpt","prompt":"hi"})").status, 404);
}

TEST(Api, ResetsThePrefixCacheOnlyWhenNothingRuns) {
  RunningWorker worker(slow_spec());
  const std::string content(100, 'x');
  const std::string body = chat_body(content, R"("max_tokens":1)");
  const auto cached = [&] {
    return openai::parse_chunk(worker.post("/v1/chat/completions", body).body)->usage->cached_tokens;
  };
  EXPECT_EQ(cached(), 0U);
  EXPECT_GT(cached(), 0U);
  {
    RawClient running(worker.port());
    running.post("/v1/chat/completions", chat_body("a", R"("stream":true,"ignore_eos":true)"));
    ASSERT_TRUE(worker.await_metric("vllm:num_requests_running", 1));
    EXPECT_EQ(worker.post("/reset_prefix_cache", "").status, 409);
  }
  ASSERT_TRUE(worker.await_metric("vllm:num_requests_running", 0));
  EXPECT_EQ(worker.post("/reset_prefix_cache", "").status, 200);
  EXPECT_EQ(cached(), 0U);
}

TEST(Metrics, HaveVllmsNames) {
  RunningWorker worker;
  static_cast<void>(worker.post("/v1/chat/completions", chat_body("x", R"("max_tokens":2)")));
  const net::HttpResponse page = worker.get("/metrics");
  EXPECT_EQ(page.headers.find("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  const Result<telemetry::MetricSamples> samples = telemetry::MetricSamples::parse(page.body);
  ASSERT_TRUE(samples) << samples.error().message;
  for (const char* name : {"vllm:num_requests_running",
                           "vllm:num_requests_waiting",
                           "vllm:kv_cache_usage_perc",
                           "vllm:prefix_cache_queries_total",
                           "vllm:prefix_cache_hits_total",
                           "vllm:num_preemptions_total",
                           "vllm:prompt_tokens_total",
                           "vllm:generation_tokens_total",
                           "vllm:request_success_total",
                           "vllm:cache_config_info",
                           "kvist_worker_max_batch_size",
                           "kvist_worker_max_num_tokens",
                           "kvist_worker_prefilled_tokens_total",
                           "kvist_worker_evicted_blocks_total",
                           "kvist_worker_steps_total",
                           "kvist_worker_step_lateness_seconds_total",
                           "vllm:prompt_tokens_by_source_total",
                           "vllm:prompt_tokens_cached_total",
                           "vllm:admission_rejections_total",
                           "vllm:time_to_first_token_seconds_count",
                           "vllm:inter_token_latency_seconds_sum",
                           "vllm:request_queue_time_seconds_bucket",
                           "vllm:iteration_tokens_total_count"}) {
    EXPECT_TRUE(samples->sum(name)) << name;
    EXPECT_EQ(samples->label(name, "model_name"), "test-model") << name;
    EXPECT_EQ(samples->label(name, "engine"), "0") << name;
  }
  for (const char* name : {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes",
                           "process_open_fds", "process_max_fds"}) {
    EXPECT_GT(samples->sum(name).value_or(0), 0) << name;
  }
  EXPECT_EQ(samples->sum("vllm:time_to_first_token_seconds_count"), 1);
  EXPECT_EQ(samples->sum("vllm:inter_token_latency_seconds_count"), 1);
  EXPECT_EQ(samples->sum("vllm:request_generation_tokens_sum"), 2);
  EXPECT_EQ(samples->sum("vllm:prompt_tokens_by_source_total"), samples->sum("vllm:prompt_tokens_total"));
  EXPECT_EQ(samples->sum("vllm:generation_tokens_total"), 2);
  EXPECT_EQ(samples->sum("kvist_worker_steps_total", "kind", "prefill"), 1);
  EXPECT_EQ(samples->sum("kvist_worker_steps_total", "kind", "mixed"), 0);
  EXPECT_EQ(samples->sum("kvist_worker_steps_total", "kind", "decode"), 1);
  EXPECT_EQ(samples->sum("vllm:cache_config_info"), 1);
  EXPECT_EQ(samples->label("vllm:cache_config_info", "block_size"), "16");
  EXPECT_EQ(samples->label("vllm:cache_config_info", "num_gpu_blocks"), "2000");
  EXPECT_EQ(samples->sum("kvist_worker_max_batch_size"), 4);
  EXPECT_GT(samples->sum("process_start_time_seconds"), 1.6e9);
  EXPECT_EQ(samples->sum("vllm:spec_decode_num_draft_tokens_total"), std::nullopt);
}

TEST(Metrics, AStopStringsAnswerEndedByItself) {
  RunningWorker worker;
  const std::string body = chat_body("x", R"("stop":["e"],"max_tokens":500,"ignore_eos":true)");
  EXPECT_EQ(openai::parse_chunk(worker.post("/v1/chat/completions", body).body)->finish_reason, "stop");
  const std::string page = worker.get("/metrics").body;
  const Result<telemetry::MetricSamples> samples = telemetry::MetricSamples::parse(page);
  ASSERT_TRUE(samples);
  EXPECT_EQ(samples->sum("vllm:request_success_total", "finished_reason", "stop"), 1);
  EXPECT_EQ(samples->sum("vllm:request_success_total", "finished_reason", "abort"), 0);
  EXPECT_EQ(samples->sum("vllm:e2e_request_latency_seconds_count"), 1);
}

TEST(Metrics, AStopStringCountsThoughTheLastTokenCompletesIt) {
  RunningWorker worker;
  const auto ask = [&](std::string_view fields) {
    return openai::parse_chunk(worker.post("/v1/chat/completions", chat_body("x", fields)).body).value();
  };
  const std::string last(1, ask(R"("max_tokens":5,"seed":3,"ignore_eos":true)").content.at(4));
  const auto stopped =
      ask(fmt::format(R"("max_tokens":5,"min_tokens":4,"seed":3,"ignore_eos":true,"stop":["{}"])", last));
  EXPECT_EQ(stopped.finish_reason, "stop");
  EXPECT_EQ(stopped.usage->completion_tokens, 5U);
  const std::string page = worker.get("/metrics").body;
  const Result<telemetry::MetricSamples> samples = telemetry::MetricSamples::parse(page);
  ASSERT_TRUE(samples);
  EXPECT_EQ(samples->sum("vllm:request_success_total", "finished_reason", "stop"), 1);
  EXPECT_EQ(samples->sum("vllm:request_success_total", "finished_reason", "length"), 1);
}

TEST(Metrics, ARefusalByTheFullQueueIsCounted) {
  spec::WorkerSpec spec = slow_spec();
  spec.max_batch_size = 1;
  spec.max_waiting = 1;
  RunningWorker worker(spec);
  RawClient running(worker.port());
  running.post("/v1/chat/completions", chat_body("a", R"("stream":true,"ignore_eos":true)"));
  ASSERT_TRUE(worker.await_metric("vllm:num_requests_running", 1));
  RawClient waiting(worker.port());
  waiting.post("/v1/chat/completions", chat_body("b"));
  ASSERT_TRUE(worker.await_metric("vllm:num_requests_waiting", 1));
  EXPECT_EQ(worker.post("/v1/completions", completion_body(R"("c")")).status, 429);
  EXPECT_EQ(worker.metric("vllm:admission_rejections_total"), 1);
}

TEST(Service, RefusesImpossibleEngineLimits) {
  net::EventLoop loop;
  spec::WorkerSpec spec = fast_spec();
  spec.max_batch_size = 0;
  const auto service = Service::create(loop, spec);
  ASSERT_FALSE(service);
  EXPECT_EQ(service.error().message, "worker worker-0: max_batch_size must be at least 1");
}

}  // namespace
}  // namespace kvist::worker::http_api_test
