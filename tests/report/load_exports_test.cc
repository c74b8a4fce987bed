// The formats of other load generators: their names and nesting, and one run's figures equal in all of them.
#include "kvist/report/load_exports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <filesystem>
#include <sstream>

#include "analysis/sample_run.h"
#include "kvist/base/random.h"
#include "kvist/report/load_output.h"
#include "kvist/report/load_summary.h"

namespace kvist::report::load_exports_test {
namespace {

using analysis::at_ms;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

/// 40 conversations of three turns in 30 s; one turn failed, one was abandoned, some were sent in the warm-up.
LoadRun sample_load(bool usage = true) {
  LoadRun run{.kvist_version = "1.2",
              .target = "http://127.0.0.1:8000",
              .model = "m",
              .dataset = "synthetic",
              .started_utc = "2026-11-22T21:11:30Z",
              .started_unix_s = 1'795'381'890,
              .command = "kvist loadgen --rate 4",
              .request_prefix = "loadgen-7",
              .workload = {},
              .rate_per_s = 4,
              .level = {}};
  run.workload.arrivals.kind = spec::ArrivalKind::kPoisson;
  run.level.seed = 7;
  run.level.started = at_ms(1'000);
  run.level.measure_from = at_ms(3'000);
  run.level.measure_to = at_ms(33'000);
  run.level.client = {.loop_delay_p99_ms = 0.2, .loop_delay_max_ms = 1, .cpu_share = 0.1, .send_delay_p99_ms = 0.3};
  RandomStream random(3);
  for (std::uint32_t i = 0; i < 120; ++i) {
    workload::TurnSample turn = analysis::turn_sent_at(1'500 + 250 * i, 20 + random.uniform_int(0, 80),
                                                       std::vector<float>(9, 5.0F + static_cast<float>(i % 3)));
    turn.intended = turn.sent - std::chrono::milliseconds(2);
    turn.conversation = ConversationId(i / 3);
    turn.turn = i % 3;
    turn.prompt_tokens = usage ? 100 + i : 0;
    turn.cached_tokens = usage ? 50 : 0;
    turn.completion_tokens = usage ? 12 : 0;  // some chunks have two tokens
    run.level.turns.push_back(std::move(turn));
  }
  run.level.turns[50].outcome = workload::TurnOutcome::kFailed;
  run.level.turns[50].error = "HTTP 500: \"broken\"";
  run.level.turns[51].outcome = workload::TurnOutcome::kAbandoned;
  return run;
}

std::vector<std::string> keys_of(const simdjson::dom::element& element) {
  std::vector<std::string> keys;
  for (const auto& field : element.get_object()) keys.emplace_back(field.key);
  return keys;
}

struct Parsed {
  explicit Parsed(std::string json) : text(std::move(json)) { root = parser.parse(text); }
  std::string text;
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  [[nodiscard]] double at(std::string_view pointer) const { return double(root.at_pointer(pointer)); }
};

TEST(LoadExports, OneRunsFiguresAreEqualInAllFormats) {
  const LoadRun run = sample_load();
  const LoadFigures figures = figures_of(run);
  const Parsed own(load_summary_json(run, figures));
  const Parsed vllm(vllm_json(run, figures));
  const Parsed aiperf(aiperf_json(run, figures));
  const Parsed guidellm(guidellm_json(run, figures));
  const Parsed perf(inference_perf_json(run, figures));
  const std::string guide = "/benchmarks/0/metrics/";
  struct Case {
    std::string own, vllm, aiperf, guidellm, perf;
  };
  for (const Case& c :
       {Case{"/figures/ttft_p95_ms/value", "/p95_ttft_ms", "/time_to_first_token/p95",
             guide + "time_to_first_token_ms/successful/percentiles/p95", "/successes/latency/time_to_first_token/p95"},
        Case{"/figures/tpot_p50_ms/value", "/median_tpot_ms", "/inter_token_latency/p50",
             guide + "inter_token_latency_ms/successful/median", "/successes/latency/time_per_output_token/median"},
        Case{"/figures/latency_p95_ms/value", "/p95_e2el_ms", "/request_latency/p95", "",
             "/successes/latency/request_latency/p95"},
        Case{"/figures/itl_p99_ms/value", "/p99_itl_ms", "/inter_chunk_latency/p99", "",
             "/successes/latency/inter_token_latency/p99"}}) {
    const double value = own.at(c.own);
    EXPECT_NEAR(vllm.at(c.vllm), value, 2e-5) << c.own;
    EXPECT_NEAR(aiperf.at(c.aiperf), value, 2e-5) << c.own;
    if (!c.guidellm.empty()) {
      EXPECT_NEAR(guidellm.at(c.guidellm), value, 2e-5) << c.own;
    }
    EXPECT_NEAR(perf.at(c.perf) * 1e3, value, 2e-5) << c.own;
  }
  EXPECT_NEAR(guidellm.at(guide + "request_latency/successful/percentiles/p95") * 1e3,
              own.at("/figures/latency_p95_ms/value"), 2e-5);
  const double tokens = own.at("/figures/output_tokens_per_s/value");
  EXPECT_NEAR(vllm.at("/output_throughput"), tokens, 1e-5);
  EXPECT_NEAR(aiperf.at("/output_token_throughput/avg"), tokens, 1e-5);
  EXPECT_NEAR(guidellm.at(guide + "output_tokens_per_second/successful/mean"), tokens, 1e-5);
  EXPECT_NEAR(perf.at("/successes/throughput/output_tokens_per_sec"), tokens, 1e-5);
  EXPECT_EQ(vllm.at("/completed"), own.at("/requests/succeeded"));
  EXPECT_EQ(aiperf.at("/request_count/avg"), own.at("/requests/succeeded"));
  EXPECT_EQ(guidellm.at(guide + "request_totals/successful"), own.at("/requests/succeeded"));
  EXPECT_EQ(perf.at("/successes/count"), own.at("/requests/succeeded"));
  EXPECT_EQ(perf.at("/failures/count"), 1);
  EXPECT_EQ(vllm.at("/total_input_tokens"), own.at("/tokens/prompt"));
  EXPECT_EQ(perf.at("/successes/prompt_tokens/cached"), own.at("/tokens/cached"));
  EXPECT_NEAR(aiperf.at("/overall_usage_prompt_cache_read_pct/avg"),
              100 * own.at("/tokens/cached") / own.at("/tokens/prompt"), 1e-9);
  EXPECT_NEAR(own.at("/figures/kv_hit_rate_pct/value"), aiperf.at("/overall_usage_prompt_cache_read_pct/avg"), 1e-6);
}

TEST(LoadExports, CachedTokensThatNobodyReportsAreNullEverywhere) {
  LoadRun run = sample_load();
  for (workload::TurnSample& turn : run.level.turns) turn.cached_tokens = 0;
  const auto texts_of = [&] {
    const LoadFigures figures = figures_of(run);
    const bool reported = reports_cached(run.level);
    return std::vector{request_line(run, run.level.turns[12], reported), load_summary_json(run, figures),
                       aiperf_records(run), guidellm_json(run, figures), inference_perf_json(run, figures)};
  };
  const std::string number = "\"(cached_tokens|cached|uncached|usage_prompt_cache_read_tokens)\": ?[0-9{]";
  for (const std::string& text : texts_of()) EXPECT_THAT(text, Not(ContainsRegex(number)));
  // One that says 0 makes the others' 0 known: those leave the field out where it is 0.
  run.level.turns[20].reports_cached = true;
  for (const std::string& text : texts_of()) EXPECT_THAT(text, ContainsRegex(number));
}

TEST(LoadExports, HaveTheNamesAndTheNestingOfTheirTools) {
  const LoadRun run = sample_load();
  const LoadFigures figures = figures_of(run);
  const Parsed vllm(vllm_json(run, figures));
  EXPECT_THAT(keys_of(vllm.root),
              ElementsAre("date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts",
                          "request_rate", "burstiness", "max_concurrency", "duration", "completed", "failed",
                          "total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput",
                          "output_throughput", "total_token_throughput", "input_lens", "output_lens", "ttfts", "itls",
                          "latencies", "start_times", "queue_times", "generated_texts", "errors", "mean_ttft_ms",
                          "median_ttft_ms", "std_ttft_ms", "p50_ttft_ms", "p95_ttft_ms", "p99_ttft_ms", "mean_tpot_ms",
                          "median_tpot_ms", "std_tpot_ms", "p50_tpot_ms", "p95_tpot_ms", "p99_tpot_ms", "mean_itl_ms",
                          "median_itl_ms", "std_itl_ms", "p50_itl_ms", "p95_itl_ms", "p99_itl_ms", "mean_e2el_ms",
                          "median_e2el_ms", "std_e2el_ms", "p50_e2el_ms", "p95_e2el_ms", "p99_e2el_ms"));
  EXPECT_EQ(std::string_view(vllm.root["date"]), "20261122-211130");
  EXPECT_EQ(vllm.root["ttfts"].get_array().size(), figures.totals.succeeded);
  EXPECT_EQ(vllm.root["itls"].at(0).get_array().size(), 9U);

  const Parsed aiperf(aiperf_json(run, figures));
  EXPECT_THAT(keys_of(aiperf.root), IsSupersetOf({"schema_version",
                                                  "aiperf_version",
                                                  "benchmark_id",
                                                  "request_throughput",
                                                  "request_latency",
                                                  "request_count",
                                                  "time_to_first_token",
                                                  "time_to_second_token",
                                                  "inter_token_latency",
                                                  "output_token_throughput",
                                                  "output_token_throughput_per_user",
                                                  "output_sequence_length",
                                                  "input_sequence_length",
                                                  "inter_chunk_latency",
                                                  "benchmark_duration",
                                                  "total_isl",
                                                  "total_osl",
                                                  "input_config",
                                                  "run_info",
                                                  "was_cancelled",
                                                  "error_summary",
                                                  "start_time"}));
  EXPECT_THAT(keys_of(aiperf.root["time_to_first_token"]),
              ElementsAre("unit", "avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "max",
                          "std", "count", "sum"));
  EXPECT_EQ(std::string_view(aiperf.root["request_throughput"]["unit"]), "requests/sec");

  const Parsed guidellm(guidellm_json(run, figures));
  EXPECT_THAT(keys_of(guidellm.root), ElementsAre("metadata", "config", "benchmarks"));
  const simdjson::dom::element benchmark = guidellm.root["benchmarks"].at(0);
  EXPECT_THAT(keys_of(benchmark),
              IsSupersetOf({"type_", "config", "scheduler_metrics", "scheduler_state", "metrics", "requests",
                            "start_time", "end_time", "duration", "warmup_duration", "cooldown_duration"}));
  // GuideLLM's own reader takes no distribution that is null or lacks a member.
  for (const auto [key, metric] : benchmark["metrics"].get_object()) {
    if (key == "request_totals" || key == "text" || key == "image" || key == "video" || key == "audio" ||
        key == "tool_call")
      continue;
    for (const char* status : {"successful", "errored", "incomplete", "total"}) {
      EXPECT_THAT(keys_of(metric[status]), IsSupersetOf({"mean", "median", "std_dev", "count", "percentiles"})) << key;
    }
    EXPECT_EQ(metric["errored"]["count"].get_int64().value(), 0) << key;
  }
  EXPECT_NEAR(benchmark["metrics"]["requests_per_second"]["successful"]["mean"].get_double().value(),
              *figures.completed_per_s, 1e-9);
  EXPECT_NEAR(benchmark["metrics"]["prompt_tokens_per_second"]["successful"]["mean"].get_double(),
              *figures.prompt_tokens_per_s, 1e-6);
  EXPECT_THAT(keys_of(guidellm.root["config"]["spec"]), ElementsAre("backend", "profile", "data"));
  EXPECT_THAT(keys_of(benchmark["metrics"]["time_to_first_token_ms"]["successful"]),
              ElementsAre("mean", "median", "mode", "variance", "std_dev", "min", "max", "count", "total_sum",
                          "percentiles", "pdf", "mean_ci", "percentile_cis"));
  EXPECT_EQ(benchmark["requests"]["successful"].get_array().size(), figures.totals.succeeded);
  EXPECT_EQ(benchmark["requests"]["errored"].get_array().size(), 1U);

  const Parsed perf(inference_perf_json(run, figures));
  EXPECT_THAT(keys_of(perf.root), ElementsAre("benchmark_time_seconds", "load_summary", "successes", "failures"));
  EXPECT_THAT(keys_of(perf.root["successes"]["latency"]),
              ElementsAre("request_latency", "normalized_time_per_output_token", "time_per_output_token",
                          "time_to_first_token", "inter_token_latency"));
}

TEST(LoadExports, NameTheLawOfTheArrivalsOrNone) {
  struct Case {
    spec::ArrivalKind kind;
    const char* aiperf;
    const char* guidellm;
    const char* vllm;
  };
  for (const Case& c : {Case{spec::ArrivalKind::kPoisson, R"("type":"poisson")", R"("type_":"poisson")", R"(1)"},
                        Case{spec::ArrivalKind::kConstant, R"("type":"constant")", R"("type_":"constant")", R"("inf")"},
                        Case{spec::ArrivalKind::kBursty, R"("type":"gamma")", R"("type_":null)", R"(0.25)"},
                        Case{spec::ArrivalKind::kBursts, R"("type":null)", R"("type_":null)", R"(null)"}}) {
    LoadRun run = sample_load();
    run.workload.arrivals.kind = c.kind;
    const LoadFigures figures = figures_of(run);
    const auto plain = [](std::string json) {
      std::erase_if(json, [](char character) { return character == ' ' || character == '\n'; });
      return json;
    };
    EXPECT_THAT(plain(aiperf_json(run, figures)), HasSubstr(c.aiperf));
    EXPECT_THAT(plain(guidellm_json(run, figures)), HasSubstr(c.guidellm));
    EXPECT_THAT(plain(vllm_json(run, figures)), HasSubstr(std::string(R"("burstiness":)") + c.vllm + ","));
    run.workload.arrivals.profile = {{.at = std::chrono::seconds(5), .share = 2}};  // none of them has this ramp
    EXPECT_THAT(plain(guidellm_json(run, figures)), HasSubstr(R"("type_":null)"));
    EXPECT_THAT(plain(vllm_json(run, figures)), HasSubstr(R"("burstiness":null)"));
  }
  LoadRun trace = sample_load();
  trace.rate_per_s.reset();
  trace.workload.arrivals.kind = spec::ArrivalKind::kClosed;
  trace.workload.trace.file = "trace.jsonl";
  const Parsed vllm(vllm_json(trace, figures_of(trace)));
  EXPECT_TRUE(vllm.root["request_rate"].is_null());
  EXPECT_TRUE(vllm.root["burstiness"].is_null());
}

TEST(LoadExports, WhatFailedBeforeTheWindowIsInNoFormat) {
  LoadRun run = sample_load();
  run.level.turns[2].outcome = workload::TurnOutcome::kFailed;  // sent in the warm-up
  run.level.turns[2].error = "early";
  run.level.turns[2].ended = run.level.turns[2].sent + std::chrono::seconds(100);
  const LoadFigures figures = figures_of(run);
  const Parsed aiperf(aiperf_json(run, figures));
  ASSERT_EQ(aiperf.root["error_summary"].get_array().size(), 1U);
  EXPECT_EQ(aiperf.at("/error_summary/0/count"), 1);
  EXPECT_EQ(std::string_view(aiperf.root["error_summary"].at(0)["error_details"]["message"]), "HTTP 500: \"broken\"");
  const Parsed perf(inference_perf_json(run, figures));
  EXPECT_EQ(perf.at("/failures/count"), 1);
  EXPECT_LT(perf.at("/failures/request_latency/max"), 50);
  EXPECT_EQ(Parsed(guidellm_json(run, figures)).root["benchmarks"].at(0)["requests"]["errored"].get_array().size(), 1U);
}

TEST(LoadExports, AiperfRecordsAreOnePerRequestWithBothStarts) {
  const LoadRun run = sample_load();
  std::istringstream lines(aiperf_records(run));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Parsed record(line);
    ASSERT_THAT(keys_of(record.root), ElementsAre("metadata", "metrics", "error"));
    const auto issued = std::int64_t(record.root["metadata"]["credit_issued_ns"]);
    EXPECT_EQ(std::int64_t(record.root["metadata"]["request_start_ns"]) - issued, 2'000'000);
    EXPECT_EQ(record.root["error"].is_null(), count != 50);
    if (count == 50) {
      EXPECT_EQ(std::string_view(record.root["error"]["message"]), "HTTP 500: \"broken\"");
    }
    if (count == 0) {
      EXPECT_EQ(std::string_view(record.root["metadata"]["benchmark_phase"]), "warmup");
    }
  }
  EXPECT_EQ(count, run.level.turns.size());
}

TEST(LoadExports, WithoutUsageTokensCountByChunksAndPromptsAreUnknown) {
  const LoadRun run = sample_load(false);
  const LoadFigures figures = figures_of(run);
  EXPECT_GT(figures.output_tokens_per_s.value(), 0);
  EXPECT_FALSE(figures.prompt_tokens_per_s.has_value());
  EXPECT_TRUE(Parsed(load_summary_json(run, figures)).root["tokens"]["prompt"].is_null());
  EXPECT_TRUE(Parsed(vllm_json(run, figures)).root["total_input_tokens"].is_null());
  EXPECT_TRUE(Parsed(vllm_json(run, figures)).root["input_lens"].at(0).is_null());
  EXPECT_THAT(aiperf_json(run, figures), Not(HasSubstr("\"total_isl\"")));
  EXPECT_TRUE(Parsed(inference_perf_json(run, figures)).root["successes"]["prompt_tokens"].is_null());
  const std::string console = load_summary(run, figures);
  EXPECT_THAT(console, HasSubstr("cache    -: the target does not say"));
  EXPECT_THAT(console, HasSubstr("(the target sends no usage: one token per chunk)"));
  EXPECT_THAT(request_line(run, run.level.turns[9], false), HasSubstr("\"prompt_tokens\":null"));
}

TEST(LoadSummary, SaysHowManyAnswersHaveNoUsage) {
  LoadRun run = sample_load();
  for (std::size_t i = 60; i < 64; ++i) {
    run.level.turns[i].prompt_tokens = run.level.turns[i].cached_tokens = run.level.turns[i].completion_tokens = 0;
  }
  const LoadFigures figures = figures_of(run);
  const std::string all = std::to_string(figures.totals.succeeded);
  const std::string console = load_summary(run, figures);
  EXPECT_THAT(console, HasSubstr("(4 of " + all + " answers have no usage: one token per chunk)"));
  EXPECT_THAT(console, HasSubstr("cache    -: 4 of " + all + " answers do not say how many prompt tokens there were"));
}

TEST(LoadSummary, RatesAreOverTheWindowAndItlIsBesideTpot) {
  const LoadRun run = sample_load();
  const LoadFigures figures = figures_of(run);
  EXPECT_DOUBLE_EQ(figures.window_s, 30);
  // Turns sent at 1.5 s + 0.25 s x i end about 0.1 s later: those of 3 s to 31.25 s end within the window.
  EXPECT_NEAR(figures.completed_per_s.value(), 112.0 / 30, 0.1);
  EXPECT_EQ(figures.totals.failed, 1U);
  EXPECT_EQ(figures.totals.abandoned, 1U);
  const std::string console = load_summary(run, figures);
  EXPECT_THAT(console, HasSubstr("turns    112 succeeded, 1 failed, 1 abandoned, sent within 30.0 s\n"));
  for (const char* row : {"\nTTFT ", "\nTPOT (mean of a request) ", "\nITL (gaps, pooled) ", "\nlatency ",
                          "\nTTFT from the schedule ", "\narrivals poisson: ", "\nclient   valid: "}) {
    EXPECT_THAT(console, HasSubstr(row));
  }
  EXPECT_THAT(console, HasSubstr("first error: HTTP 500"));
  EXPECT_NEAR(figures.exact().ttft_from_schedule_ms.p50, figures.exact().ttft_ms.p50 + 2, 1e-9);
}

TEST(LoadSummary, AWindowThatEndsWithTheLastRequestSaysWhenItIsTooShort) {
  LoadRun run = sample_load();
  EXPECT_EQ(last_sent(run.level.turns, run.level.started), run.level.turns.back().sent);
  EXPECT_EQ(last_sent({}, run.level.started), run.level.started);
  run.level.turns.back().sent = TimePoint{};  // never sent: when it should have been
  EXPECT_EQ(last_sent(run.level.turns, run.level.started), run.level.turns.back().intended);
  EXPECT_FALSE(short_window_remark(run.level).has_value());
  run.level.measure_to = run.level.turns[50].ended;
  EXPECT_THAT(short_window_remark(run.level).value(), HasSubstr("45 of 114 answers had ended"));
  run.level.measure_from = run.level.measure_to;
  EXPECT_THAT(short_window_remark(run.level).value(), HasSubstr("before the warm-up was over"));
}

TEST(LoadSummary, ItIsSaidIfConnectingTookLong) {
  LoadRun run = sample_load();
  EXPECT_FALSE(connection_remark(run.level).has_value()) << "not known when the client came to the requests";
  for (workload::TurnSample& turn : run.level.turns) turn.handed = turn.sent - std::chrono::milliseconds(2);
  EXPECT_FALSE(connection_remark(run.level).has_value());
  workload::TurnSample& slow = run.level.turns[100];
  slow.handed = slow.sent - std::chrono::milliseconds(1'500);
  EXPECT_THAT(connection_remark(run.level).value(),
              AllOf(StartsWith("1 of "), HasSubstr("more than 100 ms to connect and send, up to 1.50 s")));
  slow.sent = run.level.measure_to + std::chrono::seconds(1);
  EXPECT_FALSE(connection_remark(run.level).has_value()) << "of no request of the window";
}

TEST(LoadOutput, ChangesOfTheLoadAreWrittenAndAreInTheOrderedRate) {
  LoadRun run = sample_load();
  run.workload.arrivals.kind = spec::ArrivalKind::kConstant;
  run.changes = {{.at = at_ms(13'000), .change = {.rate = 8}},
                 {.at = at_ms(21'000), .change = {.rate = 2, .max_in_flight = 9}}};
  const LoadFigures figures = figures_of(run);
  // 12 s at 4, 8 s at 8, 12 s at 2 starts per second.
  EXPECT_NEAR(figures.arrivals->ordered_per_s, (12 * 4 + 8 * 8 + 12 * 2) / 32.0, 1e-9);
  const Parsed summary(load_summary_json(run, figures));
  EXPECT_EQ(summary.at("/changes/0/at_s"), 12);
  EXPECT_EQ(summary.at("/changes/0/rate_per_s"), 8);
  EXPECT_EQ(summary.at("/changes/1/at_s"), 20);
  EXPECT_EQ(std::int64_t(summary.root.at_pointer("/changes/1/max_in_flight")), 9);
  run.changes.clear();
  EXPECT_TRUE(Parsed(load_summary_json(run, figures_of(run))).root["changes"].error());
}

TEST(LoadOutput, WhatWasSentIsWrittenWithItsMix) {
  LoadRun run = sample_load();
  EXPECT_TRUE(Parsed(load_summary_json(run, figures_of(run))).root["mix"].error());
  workload::WorkloadPart drawn{.weight = 3, .name = "short.yaml", .sha256 = "ab"};
  drawn.spec.max_tokens = 17;
  workload::WorkloadPart chats{.weight = 1, .name = "chats.jsonl", .sha256 = "cd"};
  chats.scripts = std::make_shared<const std::vector<workload::ChatScript>>(2);
  run.mix = std::make_shared<const std::vector<workload::WorkloadPart>>(std::vector{drawn, chats});
  run.think_time = {.least = std::chrono::seconds(1), .most = std::chrono::milliseconds(2'500)};
  run.dataset_sha256 = "ef";
  const Parsed summary(load_summary_json(run, figures_of(run)));
  EXPECT_EQ(summary.at("/mix/0/weight"), 3);
  EXPECT_EQ(std::string_view(summary.root.at_pointer("/mix/0/file")), "short.yaml");
  EXPECT_THAT(std::string(std::string_view(summary.root.at_pointer("/mix/0/workload"))), HasSubstr("max_tokens: 17"));
  EXPECT_EQ(std::int64_t(summary.root.at_pointer("/mix/1/conversations")), 2);
  EXPECT_EQ(std::string_view(summary.root.at_pointer("/mix/1/sha256")), "cd");
  EXPECT_EQ(summary.at("/think_time_s/most"), 2.5);
  EXPECT_EQ(std::string_view(summary.root["dataset_sha256"]), "ef");
}

TEST(LoadOutput, EveryRequestAndEveryTokenIsWritten) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "kvist-load-output";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const LoadRun run = sample_load();
  const auto written = write_load_files(run, figures_of(run), folder, parse_formats("all").value());
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_EQ(written->size(), 7U);
  const Parsed line(request_line(run, run.level.turns[12], true));
  EXPECT_EQ(line.root["gaps_ms"].get_array().size(), 9U);
  EXPECT_NEAR(double(line.root["sent_s"]), 3.5, 1e-9);
  EXPECT_TRUE(bool(line.root["measured"]));
  EXPECT_TRUE(line.root["late_ms"].error()) << "it is not known when its chunks arrived";
  EXPECT_FALSE(parse_formats("vllm,k6").has_value());
  std::filesystem::remove_all(folder);
}

TEST(LoadOutput, TheClientsCertificateIsWrittenWithItsVerdict) {
  LoadRun run = sample_load();
  results::ClientCertificate certificate{.chunks = 1'120, .stamped_chunks = 1'100, .receive_delay_p99_ms = 0.5};
  certificate.shares[0] = results::ClientShare{.low_ms = -0.25, .high_ms = 0.5};
  certificate.shares[4] = results::ClientShare{.low_ms = 0, .high_ms = 2};
  certificate.run_queue_share = 0.125;
  run.level.client.certificate = certificate;
  workload::TurnSample& turn = run.level.turns[12];
  turn.late_ms.assign(10, 0.125F);
  turn.unsure_ms = {0, 0.5F};
  const Parsed line(request_line(run, turn, true));
  EXPECT_EQ(line.root["late_ms"].get_array().size(), 10U);
  EXPECT_EQ(line.root["unsure_ms"].get_array().size(), 2U);
  const LoadFigures figures = figures_of(run);
  const Parsed summary(load_summary_json(run, figures));
  const simdjson::dom::element client = summary.root["client"];
  EXPECT_EQ(std::string_view(client["verdict"]), "degraded") << "2 ms of an ITL p95 of 7 ms";
  EXPECT_EQ(client["reasons"].get_array().size(), 1U);
  EXPECT_EQ(std::uint64_t(client["certificate"]["stamped_chunks"]), 1'100U);
  EXPECT_DOUBLE_EQ(double(client["certificate"]["shares"]["ttft_p50_ms"]["low"]), -0.25);
  EXPECT_TRUE(client["certificate"]["shares"]["ttft_p95_ms"].is_null());
  EXPECT_DOUBLE_EQ(double(client["certificate"]["run_queue_share"]), 0.125);
  EXPECT_TRUE(client["certificate"]["steal_share"].is_null()) << "unknown is never 0";
  const std::string console = load_summary(run, figures);
  EXPECT_THAT(console, HasSubstr("\nclient   degraded: its own part of TTFT p50, p95, p99 is at most -, of ITL -; "));
  EXPECT_THAT(console, HasSubstr("; 20 of 1,120 chunks without the system's stamp (2.0 ms of the ITL p95 (7.0 ms)"));
}

}  // namespace
}  // namespace kvist::report::load_exports_test
