// bench: results
// A simulated sweep's rows into SQLite and back: 18 levels, 18,500 turns, 15.5 million token gaps (62 MB).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kvist/results/store.h"

namespace kvist::results {
namespace {

constexpr std::int64_t kLevels = 18;
constexpr std::size_t kTurnsPerLevel = 1'028;
constexpr std::size_t kBatch = 256;
constexpr std::size_t kGaps = 838;

std::string file() {
  return (std::filesystem::temp_directory_path() / "kvist-results-bench.sqlite").string();
}

std::int64_t write(const std::vector<workload::TurnSample>& batch) {
  std::filesystem::remove(file());
  auto store = Store::open(file(), Durability::kProcess).value();
  const std::int64_t run = store->begin_run({}).value();
  for (std::int64_t level = 0; level < kLevels; ++level) {
    const std::int64_t id = store->begin_level(run, level, {}).value();
    for (std::size_t left = kTurnsPerLevel; left > 0;) {
      const std::size_t count = std::min(left, batch.size());
      if (!store->add_turns(id, std::span(batch).first(count))) std::abort();
      left -= count;
    }
    if (!store->finish_level(id, {})) std::abort();
  }
  if (!store->finish_run(run, "end")) std::abort();
  return run;
}

std::vector<workload::TurnSample> batch_of_turns() {
  workload::TurnSample turn;
  turn.worker = "worker-0";
  for (std::size_t i = 0; i < kGaps; ++i) turn.gaps_ms.push_back(20.0F + 0.001F * static_cast<float>(i));
  return std::vector<workload::TurnSample>(kBatch, turn);
}

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * kLevels *
                          static_cast<std::int64_t>(kTurnsPerLevel * kGaps * sizeof(float)));
}

void write_sweep(benchmark::State& state) {
  const std::vector<workload::TurnSample> batch = batch_of_turns();
  for (auto _ : state) write(batch);
  count_bytes(state);
  std::filesystem::remove(file());
}
BENCHMARK(write_sweep)->Name("results/write_18500_turns")->Unit(benchmark::kMillisecond);

void read_sweep_level_by_level(benchmark::State& state) {
  const std::int64_t run = write(batch_of_turns());
  for (auto _ : state) {
    const auto store = Store::open(file()).value();
    const std::vector<LevelHead> levels = store->levels(run).value();
    for (const LevelHead& head : levels) {
      benchmark::DoNotOptimize(store->load_level(head.id).value().turns.size());
    }
  }
  count_bytes(state);
  std::filesystem::remove(file());
}
BENCHMARK(read_sweep_level_by_level)->Name("results/read_18500_turns")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvist::results
