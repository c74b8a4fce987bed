// bench: perfmodel
// Step times of a GPU profile, asked for hundreds of thousands of times per simulated sweep, and building one.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "kvist/perfmodel/step_time_model.h"

namespace {

using kvist::perfmodel::StepLoad;
using kvist::perfmodel::StepTimeModel;

kvist::spec::WorkerSpec worker() {
  kvist::spec::WorkerSpec spec;
  spec.profile = kvist::spec::ProfileSpec{};
  return spec;
}

/// Steps of 1 to 64 decoding sequences of 6,100 tokens each, every one beside a chunk of `prefill_tokens`.
std::vector<StepLoad> steps(std::uint64_t prefill_tokens) {
  std::vector<StepLoad> loads;
  for (std::uint64_t batch = 1; batch <= 64; ++batch) {
    StepLoad load;
    load.decode_sequences = batch;
    load.sequences = batch + (prefill_tokens > 0 ? 1 : 0);
    load.decode_kv_tokens = batch * 6'100;
    load.prefill_tokens = prefill_tokens;
    load.prefill_pairs = prefill_tokens * prefill_tokens / 2;
    loads.push_back(load);
  }
  return loads;
}

void step_time(benchmark::State& state) {
  const StepTimeModel model = StepTimeModel::of(worker()).value();
  const auto loads = steps(static_cast<std::uint64_t>(state.range(0)));
  for ([[maybe_unused]] auto _ : state) {
    for (const StepLoad& load : loads) benchmark::DoNotOptimize(model.step_time(load));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(loads.size()));
}
BENCHMARK(step_time)->Name("perfmodel/64_decode_steps")->Arg(0);
BENCHMARK(step_time)->Name("perfmodel/64_steps_with_prefill")->Arg(4'000);

void build_model(benchmark::State& state) {
  const auto spec = worker();
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(StepTimeModel::of(spec));
}
BENCHMARK(build_model)->Name("perfmodel/build_a_profile");

}  // namespace
