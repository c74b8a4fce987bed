#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "raw_client.h"
#include "running_worker.h"

namespace kvist::worker::cancellation_test {
namespace {

using testing::HasSubstr;

constexpr const char* kEndless = R"("stream":true,"ignore_eos":true)";
// Of a completion, which has 16 tokens unless told otherwise.
constexpr const char* kEndlessCompletion = R"("stream":true,"ignore_eos":true,"max_tokens":1000000)";

TEST(Cancellation, ADisconnectingClientFreesItsSlot) {
  RunningWorker worker(slow_spec());
  RawClient client(worker.port());
  client.post("/v1/chat/completions", chat_body("a", kEndless));
  EXPECT_THAT(client.read_until("\"role\""), HasSubstr("\"role\""));
  EXPECT_EQ(worker.metric("vllm:num_requests_running"), 1);
  client.leave();
  EXPECT_TRUE(worker.await_metric("vllm:num_requests_running", 0));
  EXPECT_EQ(worker.metric("vllm:kv_cache_usage_perc"), 0);
  EXPECT_LT(worker.metric("vllm:generation_tokens_total"), 1'000);
}

TEST(Cancellation, WorksBeforeTheFirstTokenAndForWholeAnswers) {
  RunningWorker worker(slow_spec());
  RawClient client(worker.port());
  client.post("/v1/chat/completions", chat_body("a", R"("ignore_eos":true)"));
  ASSERT_TRUE(worker.await_metric("vllm:num_requests_running", 1));
  client.leave();
  EXPECT_TRUE(worker.await_metric("vllm:num_requests_running", 0));
}

TEST(Cancellation, TakesAWaitingRequestOutOfTheQueue) {
  spec::WorkerSpec spec = slow_spec();
  spec.max_batch_size = 1;
  RunningWorker worker(spec);
  RawClient running(worker.port());
  running.post("/v1/chat/completions", chat_body("a", kEndless));
  ASSERT_TRUE(worker.await_metric("vllm:num_requests_running", 1));
  RawClient waiting(worker.port());
  waiting.post("/v1/chat/completions", chat_body("b", kEndless));
  ASSERT_TRUE(worker.await_metric("vllm:num_requests_waiting", 1));
  waiting.leave();
  EXPECT_TRUE(worker.await_metric("vllm:num_requests_waiting", 0));
  EXPECT_EQ(worker.metric("vllm:num_requests_running"), 1);
}

TEST(Cancellation, ReachesEveryChoiceOfARequest) {
  RunningWorker worker(slow_spec());
  RawClient client(worker.port());
  client.post("/v1/completions", completion_body(R"(["a","b","c"])", kEndlessCompletion));
  ASSERT_TRUE(worker.await_metric("vllm:num_requests_running", 2));
  EXPECT_EQ(worker.metric("vllm:num_requests_waiting"), 1);
  client.leave();
  EXPECT_TRUE(worker.await_metric("vllm:num_requests_running", 0));
  EXPECT_EQ(worker.metric("vllm:num_requests_waiting"), 0);
}

TEST(Cancellation, AClientThatDoesNotReadGetsWhatItHasAndThenAnError) {
  spec::WorkerSpec spec = fast_spec();
  spec.time_scale = 1e6;
  spec.max_model_len = 100'000;
  spec.kv_blocks = 100'000;
  RunningWorker worker(spec);
  RawClient client(worker.port(), 4096);
  // Four answers of 100,000 chunks of 180 bytes: far more than the sockets and the bound hold.
  client.post("/v1/completions", completion_body(R"(["a","b","c","d"])", kEndlessCompletion));
  EXPECT_TRUE(worker.await_metric("kvist_worker_slow_clients_total", 1));
  EXPECT_TRUE(worker.await_metric("vllm:num_requests_running", 0));
  const std::string answer = client.read_until("0\r\n\r\n");
  EXPECT_GT(answer.size(), std::size_t{4} << 20);
  EXPECT_THAT(answer, HasSubstr(R"(data: {"error":{"message":"the answer was given up, as 4 MiB of it waited)"));
  EXPECT_THAT(answer, HasSubstr(R"("code":499}})")) << "none of the server's";
  EXPECT_THAT(answer, ::testing::Not(HasSubstr("[DONE]")));
}

TEST(ShutDown, LetsAnswersEndAndRefusesNewRequests) {
  spec::WorkerSpec spec = slow_spec();
  spec.time_scale = 20;
  RunningWorker worker(spec);
  RawClient streamed(worker.port());
  streamed.post("/v1/chat/completions", chat_body("a", R"("stream":true,"ignore_eos":true,"max_tokens":200)"));
  EXPECT_THAT(streamed.read_until("\"role\""), HasSubstr("\"role\""));
  std::atomic<bool> done = false;
  worker.shut_down([&] { done = true; });
  ASSERT_TRUE(RunningWorker::await([&] { return worker.get("/health").status == 503; }));
  const net::HttpResponse refused = worker.post("/v1/chat/completions", chat_body("b"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.find("Retry-After"), "1");
  EXPECT_EQ(refused.headers.find("Connection"), "close");
  EXPECT_THAT(streamed.read_until("0\r\n\r\n"), HasSubstr("data: [DONE]"));
  EXPECT_TRUE(RunningWorker::await([&] { return done.load(); }));
}

TEST(ShutDown, EndsStreamsWithAnErrorFrameWhenTheirTimeIsOver) {
  spec::WorkerSpec spec = slow_spec();
  spec.drain_timeout = std::chrono::milliseconds(20);
  RunningWorker worker(spec);
  RawClient streamed(worker.port());
  streamed.post("/v1/chat/completions", chat_body("a", kEndless));
  EXPECT_THAT(streamed.read_until("\"role\""), HasSubstr("\"role\""));
  RawClient whole(worker.port());
  whole.post("/v1/chat/completions", chat_body("b", R"("ignore_eos":true)"));
  ASSERT_TRUE(worker.await_metric("vllm:num_requests_running", 2));
  std::atomic<bool> done = false;
  worker.shut_down([&] { done = true; });
  const std::string stream = streamed.read_until("0\r\n\r\n");
  EXPECT_THAT(stream, HasSubstr("data: {\"error\":{\"message\":\"the worker is shutting down\""));
  EXPECT_EQ(stream.find("[DONE]"), std::string::npos);
  EXPECT_THAT(whole.read_until("shutting down"), HasSubstr("HTTP/1.1 503"));
  EXPECT_TRUE(RunningWorker::await([&] { return done.load(); }));
}

TEST(ShutDown, AskedAgainItEndsAtOnce) {
  RunningWorker worker(slow_spec());
  RawClient streamed(worker.port());
  streamed.post("/v1/chat/completions", chat_body("a", kEndless));
  EXPECT_THAT(streamed.read_until("\"role\""), HasSubstr("\"role\""));
  std::atomic<bool> done = false;
  worker.shut_down([&] { done = true; });
  ASSERT_TRUE(RunningWorker::await([&] { return worker.get("/health").status == 503; }));
  EXPECT_FALSE(done);
  worker.end_now();
  EXPECT_THAT(streamed.read_until("0\r\n\r\n"), HasSubstr("the worker is shutting down"));
  EXPECT_TRUE(RunningWorker::await([&] { return done.load(); }));
}

}  // namespace
}  // namespace kvist::worker::cancellation_test
