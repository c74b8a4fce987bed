// Workers: what gateway and workers tell, figures from successive readings, and what is unknown.
#include "kvist/dashboard/workers.h"

#include <gtest/gtest.h>

#include <string>

#include "kvist/base/json.h"

namespace kvist::dashboard::workers_test {
namespace {

constexpr std::string_view kStatus = R"({"model":"m","mode":"kv","in_flight":3,"workers":[
  {"name":"w0","url":"http://127.0.0.1:1","state":"healthy","last_problem":"","restarts":0,"in_flight":3,"prefill_tokens":40,
   "indexed_blocks":7,"cache":{"trust":"exact"},"limits":{"block_size":32,"kv_blocks":100,"max_batch_size":8,"max_batch_size_source":"reported"}},
  {"name":"w1","url":"http://127.0.0.1:2","state":"suspect","last_problem":"refused","restarts":2,"in_flight":1,"prefill_tokens":0,
   "indexed_blocks":0,"cache":{"trust":"predicted"},"limits":{"block_size":32,"kv_blocks":0,"max_batch_size":0,"max_batch_size_source":"unknown"}}]})";

std::string page(double running, double waiting, double usage, double evicted, double queries, double hits,
                 double gap_s, double gaps, double generated) {
  return "vllm:num_requests_running{engine=\"0\"} " + std::to_string(running) + "\nvllm:num_requests_waiting " +
         std::to_string(waiting) + "\nvllm:kv_cache_usage_perc " + std::to_string(usage) +
         "\nvllm:cache_config_info{num_gpu_blocks=\"100\"} 1\nkvist_worker_evicted_blocks_total " +
         std::to_string(evicted) + "\nvllm:prefix_cache_queries_total " + std::to_string(queries) +
         "\nvllm:prefix_cache_hits_total " + std::to_string(hits) + "\nvllm:inter_token_latency_seconds_sum " +
         std::to_string(gap_s) + "\nvllm:inter_token_latency_seconds_count " + std::to_string(gaps) +
         "\nvllm:generation_tokens_total " + std::to_string(generated) + "\n";
}

GatewayStatus status() {
  const auto read = read_gateway_status(kStatus);
  if (!read) ADD_FAILURE() << read.error().message;
  return read.value_or(GatewayStatus{});
}

FleetReading reading(std::int64_t second, const std::string& w0, double ended0 = 0, double ended1 = 0,
                     double batches0 = 5) {
  FleetReading made{.second = second, .status = status()};
  made.counters = GatewayCounters{.ended = {{"w0", ended0}, {"w1", ended1}}, .batches = {{"w0", batches0}}};
  if (!w0.empty()) made.pages.emplace("w0", *read_worker_page(w0));
  return made;
}

/// The worker of that name in what is written.
class Written {
 public:
  explicit Written(const Workers& workers) {
    JsonWriter json;
    workers.write(json);
    text_ = json.take();
  }
  [[nodiscard]] std::optional<double> number(std::string_view name, std::string_view key) {
    const auto value = member(name, key);
    return value ? value->if_double() : std::nullopt;
  }
  [[nodiscard]] std::string text(std::string_view name, std::string_view key) {
    const auto value = member(name, key);
    return std::string(value ? value->if_string().value_or("(none)") : "(none)");
  }
  [[nodiscard]] bool is_null(std::string_view name, std::string_view key) {
    const auto value = member(name, key);
    return value && value->is_null();
  }

 private:
  std::optional<JsonValue> member(std::string_view name, std::string_view key) {
    const auto root = document_.parse(text_);
    if (!root) return std::nullopt;
    const auto workers = root->if_array();
    for (const JsonValue one : *workers) {
      const auto object = *one.if_object();
      if (object.peek("name")->if_string() != name) continue;
      for (const auto [member_key, value] : object)
        if (member_key == key) return value;
    }
    ADD_FAILURE() << name << " has no " << key << " in " << text_;
    return std::nullopt;
  }
  std::string text_;
  JsonDocument document_;
};

TEST(Workers, FiguresAreWhatChangedBetweenReadings) {
  Workers workers;
  EventLog log;
  workers.add(reading(100, page(4, 2, 0.5, 10, 1'000, 800, 1.0, 100, 5'000), 10, 10), log);
  workers.add(reading(105, page(6, 3, 0.6, 30, 3'000, 2'300, 2.0, 150, 5'500), 19, 11, 6), log);
  Written written(workers);
  EXPECT_EQ(written.number("w0", "slots_used"), 6);
  EXPECT_EQ(written.number("w0", "slots"), 8);
  EXPECT_EQ(written.number("w0", "queue"), 3);
  EXPECT_EQ(written.number("w0", "kv_blocks_used"), 60);
  EXPECT_EQ(written.number("w0", "evictions_per_s"), 4);
  EXPECT_EQ(written.number("w0", "hit_rate_pct"), 75);
  EXPECT_EQ(written.number("w0", "step_ms"), 20);
  EXPECT_EQ(written.number("w0", "output_tokens_per_s"), 100);
  EXPECT_EQ(written.number("w0", "last_event_s"), 0);
  EXPECT_EQ(written.text("w0", "index_trust"), "exact");
  EXPECT_EQ(written.text("w0", "slots_source"), "reported");
  EXPECT_EQ(workers.queued(), 3);
  EXPECT_EQ(workers.imbalance(), 1.5) << "3 and 1 requests";
}

TEST(Workers, WhatIsNotToldIsNullAndNot0) {
  Workers workers;
  EventLog log;
  workers.add(reading(100, ""), log);
  Written written(workers);
  for (const char* const key : {"slots_used", "queue", "kv_blocks_used", "kv_usage_pct", "evictions_per_s", "evictions",
                                "hit_rate_pct", "step_ms", "acceptance_rate_pct", "share_pct", "last_event_s"})
    EXPECT_TRUE(written.is_null("w0", key)) << key;
  EXPECT_TRUE(written.is_null("w1", "slots")) << "0 means that the gateway does not know it";
  EXPECT_TRUE(written.is_null("w1", "slots_source"));
  EXPECT_TRUE(written.is_null("w1", "kv_blocks"));
  EXPECT_EQ(written.number("w1", "in_flight"), 1) << "what the gateway itself knows is there";
  EXPECT_EQ(written.text("w1", "problem"), "refused");
  EXPECT_FALSE(workers.queued());
}

TEST(Workers, APageThatIsOldSaysNothingAnyMore) {
  Workers workers;
  EventLog log;
  workers.add(reading(100, page(4, 2, 0.5, 10, 0, 0, 0, 0, 0)), log);
  workers.add(reading(105, ""), log);
  EXPECT_EQ(Written(workers).number("w0", "slots_used"), 4);
  workers.add(reading(106, ""), log);
  EXPECT_TRUE(Written(workers).is_null("w0", "slots_used"));
}

TEST(Workers, WhatAGatewayThatIsGoneSaidIsNotOfNow) {
  Workers workers;
  EventLog log;
  workers.add(reading(99, page(4, 2, 0.5, 10, 0, 0, 0, 0, 0), 5), log);
  workers.add(reading(100, page(4, 2, 0.5, 10, 0, 0, 0, 0, 0), 9), log);
  EXPECT_EQ(Written(workers).number("w0", "share_pct"), 100);
  const FleetReading nothing{.second = 105};
  workers.add(nothing, log);
  EXPECT_EQ(Written(workers).number("w0", "in_flight"), 3) << "a round that failed is not yet an end";
  workers.add({.second = 106}, log);
  Written written(workers);
  EXPECT_EQ(written.text("w0", "state"), "unknown");
  for (const char* const key :
       {"in_flight", "prefill_backlog_tokens", "index_trust", "indexed_blocks", "slots_used", "share_pct"})
    EXPECT_TRUE(written.is_null("w0", key)) << key;
  EXPECT_FALSE(workers.imbalance());
  EXPECT_EQ(workers.size(), 2U) << "who they were is still known";
  workers.add(reading(107, ""), log);
  EXPECT_EQ(Written(workers).text("w0", "state"), "healthy");
  EXPECT_EQ(log.last(), 0U) << "no worker has changed its state";
}

TEST(Workers, AGatewayThatWasStartedAnewCountsFrom0) {
  Workers workers;
  EventLog log;
  const std::string idle = page(0, 0, 0, 0, 0, 0, 0, 0, 0);
  const auto both = [&](std::int64_t second, double ended0, double ended1) {
    FleetReading made = reading(second, idle, ended0, ended1);
    made.pages.emplace("w1", *read_worker_page(idle));
    return made;
  };
  workers.add(both(100, 500, 100), log);
  workers.add(both(101, 0, 2), log);
  EXPECT_TRUE(Written(workers).is_null("w0", "share_pct")) << "there is only one reading of the new process";
  workers.add(both(102, 3, 3), log);
  EXPECT_EQ(Written(workers).number("w0", "share_pct"), 75);
  EXPECT_EQ(Written(workers).number("w1", "share_pct"), 25);
}

TEST(Workers, ARestartedWorkersCountersBeginAnew) {
  Workers workers;
  EventLog log;
  workers.add(reading(100, page(4, 2, 0.5, 1'000, 9'000, 9'000, 9, 900, 90'000)), log);
  workers.add(reading(101, page(0, 0, 0, 0, 0, 0, 0, 0, 0)), log);
  EXPECT_TRUE(Written(workers).is_null("w0", "evictions_per_s")) << "there is only one reading of the new process";
  workers.add(reading(102, page(0, 0, 0, 5, 0, 0, 0, 0, 10)), log);
  EXPECT_EQ(Written(workers).number("w0", "evictions_per_s"), 5);
}

TEST(Workers, ChangesOfStateAreEvents) {
  Workers workers;
  EventLog log;
  workers.add(reading(100, ""), log);
  EXPECT_EQ(log.last(), 0U) << "the first look is no change";
  FleetReading later = reading(101, "");
  later.status->workers[0].state = "ejected";
  later.status->workers[1].restarts = 3;
  workers.add(later, log);
  EXPECT_EQ(log.last(), 2U);
  const std::string text = log.json_after(0);
  EXPECT_TRUE(text.contains(
      R"("kind":"worker_state","text":"w0: healthy -> ejected","worker":"w0","from":"healthy","to":"ejected")"))
      << text;
  EXPECT_TRUE(text.contains(R"("kind":"worker_restart")")) << text;
}

TEST(Workers, AWorkerThatWentIsForgottenWithItsPast) {
  Workers workers;
  EventLog log;
  workers.add(reading(100, ""), log);
  const std::size_t two = workers.history_bytes();
  FleetReading later = reading(101, "");
  later.status->workers.pop_back();
  workers.add(later, log);
  EXPECT_EQ(workers.size(), 1U);
  EXPECT_EQ(workers.history_bytes(), two / 2);
}

TEST(Workers, OfVeryManyOnlyTheFirstHaveAPast) {
  Workers workers;
  EventLog log;
  FleetReading many{.second = 100, .status = GatewayStatus{}};
  for (int i = 0; i < 200; ++i)
    many.status->workers.push_back(
        {.name = "w" + std::to_string(i), .model = "m", .url = "", .state = "healthy", .problem = ""});
  workers.add(many, log);
  EXPECT_EQ(workers.size(), 200U);
  EXPECT_LE(workers.history_bytes(), Workers::kMostHistories * TimeSeries::bytes_of(kWorkerFigures));
}

TEST(Workers, ADayOfManyWorkersIsNotTooLongForAMessage) {
  Workers workers;
  EventLog log;
  FleetReading many{.second = 1'000'000, .status = GatewayStatus{}, .counters = {}, .pages = {}};
  for (int i = 0; i < 64; ++i) {
    many.status->workers.push_back({.name = "w" + std::to_string(i),
                                    .model = "m",
                                    .url = "",
                                    .state = "healthy",
                                    .problem = "",
                                    .in_flight = 1.0 / 3});
  }
  for (int i = 0; i < 2'000; ++i, many.second += 43) workers.add(many, log);
  EXPECT_LE(workers.history_json(86'400, 4'800).size(), 6U << 20);
}

TEST(Workers, TheirPastIsOneTableWithHolesBeforeTheyCame) {
  Workers workers;
  EventLog log;
  FleetReading first = reading(100, page(1, 0, 0, 0, 0, 0, 0, 0, 0));
  first.status->workers.pop_back();
  workers.add(first, log);
  workers.add(reading(101, page(2, 0, 0, 0, 0, 0, 0, 0, 0)), log);
  const std::string text = workers.history_json(60, 60);
  JsonDocument document;
  ASSERT_TRUE(document.parse_object(text)) << text;
  EXPECT_TRUE(text.contains(R"("t_ms":[100000,101000])")) << text;
  EXPECT_TRUE(text.contains(R"("w0":{"slots_used":[1,2])")) << text;
  EXPECT_TRUE(text.contains(R"("w1":{"slots_used":[null,null],"queue":[null,null],"in_flight":[null,1])")) << text;
}

TEST(WorkerReadings, TheStatusOfSeveralModelsHasTheWorkersOfAll) {
  const auto read = read_gateway_status(R"({"in_flight":0,"models":[{"model":"a","mode":"kv","workers":[{"name":"x"}]},
      {"model":"b","mode":"random","workers":[{"name":"y"}]}]})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->mode, "kv");
  ASSERT_EQ(read->workers.size(), 2U);
  EXPECT_EQ(read->workers[1].model, "b");
}

TEST(WorkerReadings, WhatIsNoStatusIsRefused) {
  for (const char* const text : {"", "{}", "[]", R"({"workers":3})", R"({"workers":[3]})", R"({"workers":[{}]})",
                                 R"({"workers":[{"name":"w","limits":{"kv_blocks":"x"}}]})"})
    EXPECT_FALSE(read_gateway_status(text)) << text;
}

TEST(WorkerReadings, CountersAreSummedByWorker) {
  const auto counters = read_gateway_counters(
      "kvist_gateway_requests_total{worker=\"w0\",outcome=\"completed\"} "
      "5\nkvist_gateway_requests_total{worker=\"w0\",outcome=\"failed\"} 2\n"
      "kvist_gateway_kv_batches_applied_total{worker=\"w1\"} 9\nother{worker=\"w0\"} 1\n");
  ASSERT_TRUE(counters);
  EXPECT_EQ(counters->ended.at("w0"), 7);
  EXPECT_EQ(counters->batches.at("w1"), 9);
}

TEST(WorkerReadings, APageOfAnOlderEngineHasItsOlderNames) {
  const auto page = read_worker_page(
      "vllm:gpu_cache_usage_perc 0.25\nvllm:time_per_output_token_seconds_sum "
      "3\nvllm:time_per_output_token_seconds_count 60\n");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->kv_usage, 0.25);
  EXPECT_EQ(page->token_gaps, 60);
  EXPECT_FALSE(page->slots) << "vLLM does not tell its batch limit";
}

TEST(WorkerReadings, OfDataParallelRanksCountsAddUpAndSharesDoNot) {
  const auto page = read_worker_page(
      "vllm:num_requests_running{engine=\"0\"} 2\nvllm:num_requests_running{engine=\"1\"} 3\n"
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.75\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.25\n");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->running, 5);
  EXPECT_EQ(page->kv_usage, 0.5);
}

}  // namespace
}  // namespace kvist::dashboard::workers_test
