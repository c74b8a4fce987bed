// A small run whose figures can be computed by hand, for the tests of the report.
#pragma once

#include <string>

#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {

inline TimePoint at_ms(std::int64_t ms) {
  return TimePoint(std::chrono::milliseconds(ms));
}

/// A successful turn: sent, first token `ttft` later, then `gaps` between its chunks, one token each.
inline workload::TurnSample turn_sent_at(std::int64_t sent_ms, std::int64_t ttft_ms, std::vector<float> gaps) {
  workload::TurnSample turn;
  turn.intended = at_ms(sent_ms);
  turn.sent = at_ms(sent_ms);
  turn.first_token = at_ms(sent_ms + ttft_ms);
  double last = 0;
  for (const float gap : gaps) last += static_cast<double>(gap);
  turn.last_token = turn.first_token + from_milliseconds(last);
  turn.ended = turn.last_token;
  turn.chunks = static_cast<std::uint32_t>(gaps.size() + 1);
  turn.completion_tokens = turn.chunks;
  turn.gaps_ms = std::move(gaps);
  return turn;
}

inline workload::Snapshot snapshot_with(double ttft_p50, double ttft_p95, double tpot_p50, double tops) {
  workload::Snapshot s;
  s.ttft_p50_ms = ttft_p50;
  s.ttft_p95_ms = ttft_p95;
  s.tpot_p50_ms = tpot_p50;
  s.tpot_p95_ms = tpot_p50 + 2;
  s.itl_p50_ms = tpot_p50;
  s.itl_p95_ms = tpot_p50 + 3;
  s.latency_p50_ms = 21'807.7;
  s.latency_p95_ms = 28'451.8;
  s.output_tokens_per_s = tops;
  s.turns_per_s = 4.11;
  s.conversation_starts_per_s = 1.03;
  return s;
}

/// Ten turns within the window, 90 % or 60 % of their prompts cached, and two snapshots whose mean is round.
inline results::LevelRecord sample_level(spec::RoutingMode mode, std::uint32_t concurrency, double ttft_p50) {
  results::LevelRecord level;
  level.mode = mode;
  level.concurrency = concurrency;
  level.seed = 7 + concurrency;
  level.started_utc = "2026-03-01T10:00:00Z";
  level.started = at_ms(0);
  level.measure_from = at_ms(5'000);
  level.measure_to = at_ms(35'000);
  level.snapshots = {snapshot_with(ttft_p50 - 1, 600, 25, 1'500), snapshot_with(ttft_p50 + 1, 700, 26, 1'600)};
  const bool kv = mode == spec::RoutingMode::kKv;
  for (std::uint32_t i = 0; i < 10; ++i) {
    workload::TurnSample turn = turn_sent_at(6'000 + 1'000 * i, kv ? 100 + 10 * i : 200 + 10 * i, {20, 30, 40});
    turn.conversation = ConversationId(i / 2);
    turn.turn = i % 2;
    turn.prompt_tokens = 1'000;
    turn.cached_tokens = kv ? 900 : 600;
    turn.predicted_cached_tokens = turn.cached_tokens + 10;
    turn.worker = i % 2 == 0 ? "worker-0" : "worker-1";
    level.turns.push_back(std::move(turn));
  }
  for (const char* name : {"worker-0", "worker-1"}) {
    results::WorkerLevelRecord worker;
    worker.worker = name;
    worker.prefix_query_tokens = 5'000;
    worker.prefix_hit_tokens = kv ? 4'500 : 3'000;
    worker.prompt_tokens = 5'000;
    worker.prefilled_tokens = kv ? 500 : 2'000;
    worker.generated_tokens = 20;
    worker.evictions = 3;
    worker.kv_usage_max = 0.5;
    worker.running_mean = 2.5;
    level.workers.push_back(worker);
  }
  level.client = {.loop_delay_p99_ms = 0.2, .loop_delay_max_ms = 1, .cpu_share = 0.1, .send_delay_p99_ms = 0.3};
  return level;
}

inline spec::SweepSpec sample_sweep() {
  spec::SweepSpec sweep;
  sweep.name = "sample";
  sweep.deployment.workers.resize(2);
  // Figures are made up: what caches could have saved of these prompts is not known.
  for (spec::WorkerSpec& worker : sweep.deployment.workers) worker.block_size = 0;
  sweep.modes = {spec::RoutingMode::kRoundRobin, spec::RoutingMode::kKv};
  sweep.levels = {40, 50};
  sweep.method.warmup = std::chrono::seconds(5);
  sweep.method.snapshots = 2;
  sweep.method.snapshot_interval = std::chrono::seconds(15);
  sweep.method.window = std::chrono::seconds(6);
  return sweep;
}

inline results::RunRecord sample_run() {
  results::RunRecord run;
  run.name = "sample";
  run.started_utc = "2026-03-01T10:00:00Z";
  run.finished_utc = "2026-03-01T10:20:30Z";
  run.kvist_version = "0.1.0";
  run.machine = {{"cores", "2"}};
  run.levels = {sample_level(spec::RoutingMode::kRoundRobin, 40, 250), sample_level(spec::RoutingMode::kKv, 40, 200),
                sample_level(spec::RoutingMode::kRoundRobin, 50, 300), sample_level(spec::RoutingMode::kKv, 50, 310)};
  return run;
}

}  // namespace kvist::analysis
