// The small pure pieces: mode from the environment, a worker's metrics page, the inbox, the warning gate, the
// histogram.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "kvist/gateway/client_connections.h"
#include "kvist/gateway/kv_event_inbox.h"
#include "kvist/gateway/kv_news_board.h"
#include "kvist/gateway/latency_histogram.h"
#include "kvist/gateway/mode_from_environment.h"
#include "kvist/gateway/passed_on_paths.h"
#include "kvist/gateway/warning_gate.h"
#include "kvist/gateway/worker_monitor.h"

namespace kvist::gateway::gateway_pieces_test {
namespace {

Environment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

TEST(ModeFromEnvironment, OwnVariableThenDynamosThenTheConfiguration) {
  using spec::RoutingMode;
  const auto mode = [](std::map<std::string, std::string> variables) {
    return mode_from_environment(environment(std::move(variables)), RoutingMode::kRandom).value();
  };
  EXPECT_EQ(mode({}), RoutingMode::kRandom);
  EXPECT_EQ(mode({{"DYN_ROUTER_MODE", "round-robin"}}), RoutingMode::kRoundRobin);
  EXPECT_EQ(mode({{"DYN_ROUTER_MODE", "round-robin"}, {"KVIST_ROUTER_MODE", "kv"}}), RoutingMode::kKv);
  EXPECT_EQ(mode({{"KVIST_ROUTER_MODE", ""}, {"DYN_ROUTER_MODE", "kv"}}), RoutingMode::kKv);
}

TEST(ModeFromEnvironment, AValueThatIsNoModeNamesTheVariable) {
  const auto mode = mode_from_environment(environment({{"DYN_ROUTER_MODE", "fastest"}}), spec::RoutingMode::kKv);
  ASSERT_FALSE(mode);
  EXPECT_TRUE(mode.error().message.contains("DYN_ROUTER_MODE")) << mode.error().message;
  EXPECT_TRUE(mode.error().message.contains("fastest")) << mode.error().message;
  EXPECT_FALSE(mode.error().message.contains("clairvoyant")) << "which no gateway has: " << mode.error().message;
  EXPECT_FALSE(mode_from_environment(environment({{"KVIST_ROUTER_MODE", "clairvoyant"}}), spec::RoutingMode::kKv));
}

TEST(WorkerReport, ReadsLimitsAndLoad) {
  const auto report = read_worker_report(
      "# HELP vllm:cache_config_info x\n"
      "vllm:cache_config_info{block_size=\"32\",model_name=\"m\",num_gpu_blocks=\"11500\"} 1\n"
      "kvist_worker_max_batch_size{model_name=\"m\"} 64\n"
      "kvist_worker_max_num_tokens{model_name=\"m\"} 2048\n"
      "vllm:num_requests_running{model_name=\"m\"} 7\n"
      "vllm:num_requests_waiting{model_name=\"m\"} 3\n"
      "vllm:kv_cache_usage_perc{model_name=\"m\"} 0.25\n"
      "process_start_time_seconds 1.7e9\n");
  ASSERT_TRUE(report);
  const routing::EngineLimits limits{
      .block_size = 32, .kv_blocks = 11'500, .max_batch_size = 64, .max_num_tokens = 2'048};
  EXPECT_EQ(report->limits, limits);
  EXPECT_EQ(report->running, 7);
  EXPECT_EQ(report->waiting, 3);
  EXPECT_EQ(report->kv_usage, 0.25);
  EXPECT_EQ(report->process_start_s, 1.7e9);
}

TEST(WorkerReport, ReadsSglangsNamesToo) {
  const auto report = read_worker_report(
      "sglang:num_running_reqs{model_name=\"m\"} 12\n"
      "sglang:num_queue_reqs{model_name=\"m\"} 4\n"
      "sglang:token_usage{model_name=\"m\"} 0.5\n"
      "sglang:max_total_num_tokens{model_name=\"m\"} 640000\n"
      "sglang:page_size{model_name=\"m\"} 64\n");
  ASSERT_TRUE(report);
  const routing::EngineLimits limits{.block_size = 64, .kv_blocks = 10'000};
  EXPECT_EQ(report->limits, limits);
  EXPECT_EQ(report->running, 12);
  EXPECT_EQ(report->waiting, 4);
  EXPECT_EQ(report->kv_usage, 0.5);
}

TEST(WorkerReport, OfDataParallelRanksCountsAddUpAndSharesDoNot) {
  const auto vllm = read_worker_report(
      "vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"2000\"} 1\n"  // of both, says vLLM
      "vllm:cache_config_info{block_size=\"16\",engine=\"1\",num_gpu_blocks=\"2000\"} 1\n"
      "vllm:num_requests_running{engine=\"0\"} 7\n"
      "vllm:num_requests_running{engine=\"1\"} 5\n"
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.9\n"
      "vllm:kv_cache_usage_perc{engine=\"1\"} 0.7\n");
  ASSERT_TRUE(vllm);
  EXPECT_EQ(vllm->running, 12);
  EXPECT_DOUBLE_EQ(vllm->kv_usage, 0.8);
  EXPECT_EQ(vllm->limits.kv_blocks, 2'000U);
  EXPECT_EQ(vllm->kv_blocks_in_use(), 1'600U);
  const auto sglang = read_worker_report(
      "sglang:token_usage{dp_rank=\"0\"} 0.9\n"
      "sglang:token_usage{dp_rank=\"1\"} 0.7\n"
      "sglang:max_total_num_tokens{dp_rank=\"0\"} 64000\n"
      "sglang:max_total_num_tokens{dp_rank=\"1\"} 64000\n"
      "sglang:page_size{dp_rank=\"0\"} 64\n"
      "sglang:page_size{dp_rank=\"1\"} 64\n");
  ASSERT_TRUE(sglang);
  const routing::EngineLimits limits{.block_size = 64, .kv_blocks = 2'000};
  EXPECT_EQ(sglang->limits, limits);
  EXPECT_EQ(sglang->kv_blocks_in_use(), 1'600U);
}

TEST(WorkerReport, WhatIsMissingStaysUnknown) {
  const auto report = read_worker_report("vllm:cache_config_info{block_size=\"many\"} 1\n");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->limits, routing::EngineLimits{});
  EXPECT_FALSE(report->process_start_s);
}

constexpr std::size_t kAll = ~std::size_t{0};

TEST(KvEventInbox, WakesOnceAndKeepsTheOrder) {
  KvEventInbox inbox;
  using Kind = KvFrame::Kind;
  EXPECT_TRUE(inbox.push({Kind::kLive, 1, "a"}));
  EXPECT_FALSE(inbox.push({Kind::kLive, 2, "b"}));
  const auto [frames, more] = inbox.take(kAll);
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_FALSE(more);
  EXPECT_EQ(frames[0].sequence, 1U);
  EXPECT_EQ(frames[1].payload, "b");
  EXPECT_TRUE(inbox.push({Kind::kReplayEnd, 0, ""}));
  EXPECT_EQ(inbox.take(kAll).frames.size(), 1U);
  EXPECT_TRUE(inbox.take(kAll).frames.empty());
}

TEST(KvEventInbox, IsTakenInPiecesByATakerThatComesAgain) {
  KvEventInbox inbox;
  using Kind = KvFrame::Kind;
  constexpr std::size_t kFrame = KvEventInbox::kFrameBytes + 10;
  const std::string payload(10, 'x');
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(inbox.push({Kind::kLive, i, payload}), i == 0);
  EXPECT_EQ(inbox.bytes(), 5 * kFrame);
  const auto two = inbox.take(2 * kFrame + 1);
  ASSERT_EQ(two.frames.size(), 2U);
  EXPECT_TRUE(two.more);
  EXPECT_FALSE(inbox.push({Kind::kLive, 5, payload})) << "the taker comes anyway";
  const auto one = inbox.take(1);
  ASSERT_EQ(one.frames.size(), 1U) << "one at least";
  EXPECT_EQ(one.frames[0].sequence, 2U);
  const auto rest = inbox.take(kAll);
  EXPECT_EQ(rest.frames.size(), 3U);
  EXPECT_FALSE(rest.more);
  EXPECT_EQ(inbox.bytes(), 0U);
  EXPECT_TRUE(inbox.push({Kind::kLive, 6, payload}));
}

TEST(KvEventInbox, DropsMessagesBeyondItsBoundButNeverTheEndOfAReplay) {
  KvEventInbox inbox(2 * (KvEventInbox::kFrameBytes + 10));
  using Kind = KvFrame::Kind;
  const std::string payload(10, 'x');
  EXPECT_TRUE(inbox.push({Kind::kLive, 1, payload}));
  EXPECT_FALSE(inbox.push({Kind::kLive, 2, payload}));
  EXPECT_FALSE(inbox.push({Kind::kLive, 3, payload}));
  EXPECT_EQ(inbox.dropped(), 1U);
  EXPECT_FALSE(inbox.push({Kind::kReplayEnd, 0, ""}));
  EXPECT_EQ(inbox.take(kAll).frames.size(), 3U);
  EXPECT_TRUE(inbox.push({Kind::kLive, 4, payload}));
}

TEST(KvEventInbox, DropsEndsOfReplaysBeyondTwiceItsBound) {
  using Kind = KvFrame::Kind;
  KvEventInbox inbox(2 * KvEventInbox::kFrameBytes);
  for (int i = 0; i < 4; ++i) (void)inbox.push({Kind::kReplayEnd, 0, ""});
  EXPECT_EQ(inbox.dropped(), 0U);
  EXPECT_FALSE(inbox.push({Kind::kReplayEnd, 0, ""}));
  EXPECT_EQ(inbox.dropped(), 1U);
  EXPECT_FALSE(inbox.push({Kind::kDisconnected, 0, ""})) << "the taker comes anyway";
  EXPECT_EQ(inbox.dropped(), 1U) << "what a connection does is never dropped";
  EXPECT_EQ(inbox.take(kAll).frames.size(), 5U);
}

TEST(KvNewsBoard, AddsUpTheNewsOfEachWorkerUntilItIsTaken) {
  KvNewsBoard board(3);
  EXPECT_TRUE(board.take().empty());
  board.add(WorkerId(2), {.index = {.batches = 1}, .exact = true});
  board.add(WorkerId(0), {.index = {.batches = 5}, .exact = true});
  board.add(WorkerId(2), {.index = {.batches = 2, .begun_anew = true}, .exact = false});
  const KvNewsBoard::News news = board.take();
  ASSERT_EQ(news.size(), 2U);
  EXPECT_EQ(news[0].first, WorkerId(2));
  EXPECT_EQ(news[0].second.index.batches, 3U);
  EXPECT_TRUE(news[0].second.index.begun_anew);
  EXPECT_FALSE(news[0].second.exact) << "as said last";
  EXPECT_EQ(news[1].first, WorkerId(0));
  EXPECT_TRUE(board.take().empty());
  board.add(WorkerId(2), {.index = {.batches = 1}, .exact = true});
  EXPECT_EQ(board.take().at(0).second.index.batches, 1U) << "what was taken does not come again";
}

TEST(WarningGate, LetsOnePassPerIntervalAndCountsTheOthers) {
  WarningGate gate(std::chrono::seconds(10));
  TimePoint now{std::chrono::seconds(100)};
  EXPECT_TRUE(gate.pass(now));
  EXPECT_FALSE(gate.pass(now + std::chrono::seconds(1)));
  EXPECT_FALSE(gate.pass(now + std::chrono::seconds(9)));
  EXPECT_TRUE(gate.pass(now + std::chrono::seconds(10)));
  EXPECT_EQ(gate.suppressed(), 2U);
}

TEST(MostConnections, LeaveDescriptorsForWorkersAndTheirEvents) {
  EXPECT_EQ(most_connections({.descriptors = 20'256, .event_streams = 0}, 20'000, 1), 10'000U);
  EXPECT_EQ(most_connections({.descriptors = 20'256, .event_streams = 0}, 20'000, 4), 2'500U);
  EXPECT_EQ(most_connections({.descriptors = 20'256, .event_streams = 0}, 100, 1), 100U);
  EXPECT_EQ(most_connections({.descriptors = 20'256, .event_streams = 0}, 100, 8), 13U) << "an equal share each";
  EXPECT_EQ(most_connections({.descriptors = 20'256, .event_streams = 1'000}, 20'000, 1), 9'000U);
  EXPECT_EQ(most_connections({.descriptors = 2'256, .event_streams = 1'000}, 20'000, 4), 16U) << "a few in any case";
  EXPECT_EQ(most_clients({.descriptors = 2'256, .event_streams = 1'000}), 0U);
}

TEST(LatencyHistogram, CountsIntoTheBucketWhoseBoundIsNotBelow) {
  LatencyHistogram histogram;
  histogram.observe(std::chrono::milliseconds(1));
  histogram.observe(std::chrono::microseconds(1500));
  histogram.observe(std::chrono::minutes(10));
  const std::vector<std::uint64_t> counts = histogram.counts();
  EXPECT_EQ(counts.front(), 1U);
  EXPECT_EQ(counts[1], 1U);
  EXPECT_EQ(counts.back(), 1U);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}), 3U);
  EXPECT_DOUBLE_EQ(histogram.sum_seconds(), 600.0025);
}

TEST(PassedOnPaths, AreThoseOfClients) {
  for (const char* path : {"/v1/responses", "/v1/responses/resp_1/cancel", "/v1/messages", "/v1/embeddings",
                           "/v1/audio/transcriptions", "/v1/models/m", "/v1/chat/completions/", "/v2/rerank", "/rerank",
                           "/score", "/pooling", "/classify", "/tokenize", "/detokenize", "/version", "/ping"})
    EXPECT_TRUE(is_passed_on(path)) << path;
}

TEST(PassedOnPaths, ThatOnlyComputeMayBeSentAgain) {
  for (const char* path : {"/tokenize", "/score", "/v1/embeddings", "/v1/rerank", "/v2/embed", "/v1/messages"}) {
    EXPECT_TRUE(only_computes(path)) << path;
    EXPECT_TRUE(is_passed_on(path)) << path;
  }
  for (const char* path :
       {"/v1/responses", "/v1/files", "/v1/batches", "/v1/messages/batches", "/invocations", "/v1/x"})
    EXPECT_FALSE(only_computes(path)) << path;
}

TEST(PassedOnPaths, AreNeverThoseThatControlAWorkerOrExposeItsInternals) {
  for (const char* path : {"/reset_prefix_cache",
                           "/reset_mm_cache",
                           "/sleep",
                           "/wake_up",
                           "/is_sleeping",
                           "/collective_rpc",
                           "/start_profile",
                           "/stop_profile",
                           "/server_info",
                           "/pause",
                           "/resume",
                           "/scale_elastic_ep",
                           "/update_weights",
                           "/flush_cache",
                           "/metrics",
                           "/health",
                           "/admin/status",
                           "/docs",
                           "/openapi.json",
                           "/debug/kv_blocks",
                           "/v1/load_lora_adapter",
                           "/v1/unload_lora_adapter",
                           "/v1/../sleep",
                           "/v1/./sleep",
                           "/v1//sleep",
                           "/v1/%2e%2e/sleep",
                           "/v1/a\\..\\sleep",
                           "/v1",
                           "/v1/",
                           "/",
                           "",
                           "*",
                           "/v10/x",
                           "/v1/a b",
                           "/v1/a;b"})
    EXPECT_FALSE(is_passed_on(path)) << path;
}

}  // namespace
}  // namespace kvist::gateway::gateway_pieces_test
