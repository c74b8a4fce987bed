// bench: simulation spec
// The speed of the simulation: simulated seconds and tokens per second of one core or two, and its memory.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/simulation/level.h"

namespace {

using namespace kvist;

/// The published deployment and workload: `workers` engines of a 70B model, conversations of five turns over ten shared
/// passages; the published method runs 360 s.
spec::SweepSpec sweep(std::uint32_t workers) {
  spec::SweepSpec sweep;
  for (std::uint32_t i = 0; i < workers; ++i) {
    spec::WorkerSpec worker;
    worker.name = "worker-" + std::to_string(i);
    sweep.deployment.workers.push_back(worker);
  }
  sweep.deployment.gateway.max_in_flight = 1'000'000;
  sweep.workload.turns_min = sweep.workload.turns_max = 5;
  sweep.workload.follow_up_tokens_min = sweep.workload.follow_up_tokens_max = 22;
  sweep.workload.target_rps = 10.0 / 3 * workers;
  return sweep;
}

struct Totals {
  double seconds = 0;
  double tokens = 0;
  double events = 0;
  double turns = 0;
};

void simulate(const spec::SweepSpec& sweep, const simulation::LevelPlan& level, Totals& totals) {
  const auto outcome =
      simulation::simulate_level(sweep, level, [&](const std::vector<workload::TurnSample>& turns) -> Result<void> {
        totals.turns += static_cast<double>(turns.size());
        return {};
      });
  KVIST_CHECK(outcome, outcome.error().message);
  totals.seconds += to_seconds(outcome->ended - TimePoint{});
  totals.tokens += static_cast<double>(outcome->output_tokens);
  totals.events += static_cast<double>(outcome->events);
}

void report(benchmark::State& state, const Totals& totals) {
  const auto rate = [](double value) { return benchmark::Counter(value, benchmark::Counter::kIsRate); };
  state.counters["virtual_s_per_s"] = rate(totals.seconds);
  state.counters["tokens_per_s"] = rate(totals.tokens);
  state.counters["events_per_s"] = rate(totals.events);
  state.counters["turns"] = totals.turns / static_cast<double>(state.iterations());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_mib"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

/// `range(0)` workers at 40 users each, KV-aware: 20 s of virtual time, the first twelve to fill up.
void fleet(benchmark::State& state, bool second_thread) {
  const auto workers = static_cast<std::uint32_t>(state.range(0));
  spec::SweepSpec spec = sweep(workers);
  spec.method.warmup = std::chrono::seconds(12);
  spec.method.snapshots = 1;
  spec.method.snapshot_interval = std::chrono::seconds(8);
  spec.method.drain_timeout = std::chrono::milliseconds(1);
  Totals totals;
  for (auto _ : state) {
    simulate(
        spec,
        {.mode = spec::RoutingMode::kKv, .concurrency = 40 * workers, .seed = 1, .second_thread = second_thread},
        totals);
  }
  report(state, totals);
}
BENCHMARK_CAPTURE(fleet, one_core, false)
    ->Name("simulation/workers")
    ->Arg(3)
    ->Arg(64)
    ->Arg(1'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fleet, two_cores, true)
    ->Name("simulation/workers_two_cores")
    ->Arg(1'000)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// The complete published round-robin/KV sweep: 40 to 120 users, two modes, 18 runs of 360 s.
void published_sweep(benchmark::State& state) {
  const spec::SweepSpec spec = sweep(3);
  Totals totals;
  for (auto _ : state) {
    for (const spec::RoutingMode mode : {spec::RoutingMode::kRoundRobin, spec::RoutingMode::kKv}) {
      for (std::uint32_t users = 40; users <= 120; users += 10) {
        simulate(spec, {.mode = mode, .concurrency = users, .seed = users}, totals);
      }
    }
  }
  report(state, totals);
}
BENCHMARK(published_sweep)->Name("simulation/published_sweep")->Unit(benchmark::kMillisecond);

}  // namespace
