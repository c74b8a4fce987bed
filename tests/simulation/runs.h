// Simulated levels for tests: runs them and describes the results as text for comparison.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kvist/simulation/level.h"

namespace kvist::simulation {

struct LevelRun {
  LevelOutcome outcome;
  std::vector<workload::TurnSample> turns;
};

inline LevelRun run_level(const spec::SweepSpec& sweep, const LevelPlan& level) {
  LevelRun run;
  Result<LevelOutcome> outcome =
      simulate_level(sweep, level, [&](std::vector<workload::TurnSample> turns) -> Result<void> {
        for (workload::TurnSample& turn : turns) run.turns.push_back(std::move(turn));
        return {};
      });
  EXPECT_TRUE(outcome) << outcome.error().message;
  if (outcome) run.outcome = std::move(*outcome);
  return run;
}

/// Three small workers and short conversations: a level takes milliseconds.
inline spec::SweepSpec small_sweep(std::uint32_t workers = 3) {
  spec::SweepSpec sweep;
  for (std::uint32_t i = 0; i < workers; ++i) {
    spec::WorkerSpec worker;
    worker.name = fmt::format("worker-{}", i);
    worker.block_size = 16;
    worker.kv_blocks = 400;
    worker.max_batch_size = 4;
    worker.max_num_tokens = 256;
    worker.max_model_len = 2'000;
    worker.output_length = {.mean_tokens = 30, .standard_deviation_tokens = 4};
    sweep.deployment.workers.push_back(worker);
  }
  sweep.deployment.gateway.block_size = 16;
  sweep.workload.starters = 3;
  sweep.workload.starter_tokens_min = 200;
  sweep.workload.starter_tokens_max = 400;
  sweep.workload.max_tokens = 60;
  sweep.method.warmup = std::chrono::seconds(2);
  sweep.method.snapshots = 2;
  sweep.method.snapshot_interval = std::chrono::seconds(5);
  sweep.method.window = std::chrono::seconds(4);
  sweep.method.drain_timeout = std::chrono::seconds(10);
  return sweep;
}

/// All results of a run, a line per turn, worker and snapshot.
inline std::vector<std::string> in_words(const LevelRun& run) {
  const auto ns = [](TimePoint at) { return at.time_since_epoch().count(); };
  std::vector<std::string> lines;
  for (const workload::TurnSample& t : run.turns) {
    double gaps = 0;
    for (const float gap : t.gaps_ms) gaps += static_cast<double>(gap);
    lines.push_back(fmt::format("turn {}.{} {} \"{}\" {} {} {} {} {} {} {}/{}/{} {} {} {} {}", t.conversation.value(),
                                t.turn, static_cast<int>(t.outcome), t.error, t.worker, ns(t.intended), ns(t.sent),
                                ns(t.first_token), ns(t.last_token), ns(t.ended), t.cached_tokens, t.prompt_tokens,
                                t.completion_tokens, t.chunks, t.predicted_cached_tokens.value_or(0), t.gaps_ms.size(),
                                gaps));
  }
  for (const WorkerOutcome& w : run.outcome.workers) {
    lines.push_back(fmt::format("{}: {} steps, {} of {} cached, {} generated, {} evictions, {} preemptions, {} aborted",
                                w.name, w.total.steps, w.total.prefix_hit_tokens, w.total.prompt_tokens,
                                w.total.generated_tokens, w.total.evictions, w.total.preemptions, w.total.aborted));
    for (const WorkerReading& r : w.timeline) {
      lines.push_back(fmt::format("{} at {}: {} {} {} {} {} {} {}", w.name, ns(r.at), r.running, r.waiting,
                                  r.kv_blocks_used, r.evictions, r.preemptions, r.prefill_backlog_tokens, r.step_ms));
    }
  }
  for (const workload::Snapshot& s : run.outcome.snapshots) {
    lines.push_back(fmt::format("snapshot at {}: {} {} {} {} {} {}", ns(s.at), s.ttft_p50_ms.value_or(-1),
                                s.tpot_p95_ms.value_or(-1), s.itl_p50_ms.value_or(-1), s.latency_p95_ms.value_or(-1),
                                s.output_tokens_per_s, s.in_flight));
  }
  lines.push_back(fmt::format("ended {} after {} events, {} steps, {} tokens", ns(run.outcome.ended),
                              run.outcome.events, run.outcome.steps, run.outcome.output_tokens));
  for (const std::string& remark : run.outcome.remarks) lines.push_back(remark);
  return lines;
}

}  // namespace kvist::simulation
