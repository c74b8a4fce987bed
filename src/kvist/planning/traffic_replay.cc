#include "kvist/planning/traffic_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/perfmodel/step_time_model.h"
#include "kvist/simulation/level.h"
#include "kvist/sweep/parallel.h"
#include "kvist/workload/load_input.h"

namespace kvist::planning {
namespace {

/// The level that all requests fit into: it measures nothing, and virtual time in which nothing happens costs nothing.
spec::SweepSpec sweep_of(const workload::RecordedTraffic& traffic, const Situation& situation) {
  const std::vector<workload::TraceRequest>& requests = traffic.trace.requests;
  spec::SweepSpec sweep;
  sweep.deployment = situation.deployment;
  sweep.workload.trace.file = "record.jsonl";  // it is loaded already
  sweep.workload.request_timeout = situation.deployment.gateway.upstream_timeout;
  sweep.method.warmup = Duration{};
  sweep.method.snapshots = 1;
  // Who waits for late answers goes on late.
  sweep.method.snapshot_interval = 2 * (requests.back().at - requests.front().at) + std::chrono::hours(1);
  sweep.method.window = std::chrono::seconds(1);
  sweep.method.drain_timeout = sweep.workload.request_timeout;
  sweep.simulation.client_hop = Duration{};  // the record is the gateway's
  // Before the gateway, whose router would otherwise decide by what it sees later: it takes a request's arrival for the
  // present.
  sweep.simulation.way_in = situation.way_in;
  sweep.simulation.keep_token_gaps = false;
  sweep.simulation.timeline_period = Duration{};
  return sweep;
}

void take(const workload::TurnSample& turn, const workload::RecordedTraffic& traffic, Answers& answers) {
  const std::size_t place = turn.conversation.value();
  const workload::ObservedRequest& observed = traffic.observed[place];
  AnsweredRequest& answer = answers[place];
  answer.completed = turn.outcome == workload::TurnOutcome::kSucceeded;
  if (observed.ttft_ms && turn.chunks > 0) answer.ttft_ms = turn.ttft_ms();
  if (observed.tpot_ms) answer.tpot_ms = turn.tpot_ms();
  answer.latency_ms = turn.latency_ms();
  answer.prompt_tokens = turn.prompt_tokens;
  answer.cached_tokens = turn.cached_tokens;
}

}  // namespace

Result<Answers> replay(const workload::RecordedTraffic& traffic, const Situation& situation, std::uint64_t seed) {
  spec::SweepSpec sweep = sweep_of(traffic, situation);
  for (spec::WorkerSpec& worker : sweep.deployment.workers) {
    if (worker.cpu) {
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("worker {} computes its model: to simulate it, give it step_time or a profile", worker.name));
    }
    KVIST_TRY(worker, perfmodel::resolve(worker));
  }
  // Shared for this call only: nobody deletes what the caller owns.
  const workload::LoadInput input{
      .trace = std::shared_ptr<const workload::Trace>(std::shared_ptr<void>(), &traffic.trace), .recorded = nullptr};
  KVIST_TRY(auto source, workload::make_turn_source(sweep.workload, input, 1, seed, TimePoint{}));
  Answers answers(traffic.trace.requests.size());
  const auto sink = [&](const std::vector<workload::TurnSample>& turns) -> Result<void> {
    for (const workload::TurnSample& turn : turns) take(turn, traffic, answers);
    return {};
  };
  KVIST_TRY_VOID(simulation::simulate_level(sweep, {.mode = situation.mode, .concurrency = 1, .seed = seed}, sink,
                                            std::move(source)));
  return answers;
}

Result<std::vector<std::vector<Answers>>> replay_all(const workload::RecordedTraffic& traffic,
                                                     std::span<const Situation> situations, std::uint64_t first,
                                                     std::uint32_t seeds, unsigned threads) {
  std::vector<std::vector<Answers>> answers(situations.size(), std::vector<Answers>(seeds));
  std::vector<Result<void>> done(situations.size() * seeds);
  sweep::for_each_index(done.size(), threads, [&](std::size_t i) {
    auto run = replay(traffic, situations[i / seeds], first + i % seeds);
    if (run) {
      answers[i / seeds][i % seeds] = *std::move(run);
    } else {
      done[i] = std::unexpected(std::move(run).error());
    }
  });
  for (const Result<void>& each : done) KVIST_TRY_VOID(each);
  return answers;
}

}  // namespace kvist::planning
