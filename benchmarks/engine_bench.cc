// bench: engine engine/timed text
// The scheduler at a full batch: the engine thread's cost of one step without the model itself.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/engine/core.h"
#include "kvist/engine/timed/timed_executor.h"
#include "kvist/tokenizer/tokenizer.h"

namespace {

using namespace kvist;

engine::Request request(std::uint64_t id) {
  engine::Request r;
  r.id = RequestId(id);
  r.seed = id;
  r.max_tokens = 100'000;
  r.ignore_eos = true;
  r.prompt.emplace_back(static_cast<std::uint32_t>(id));  // no prefix in common
  for (std::uint32_t i = 1; i < 2'000; ++i) r.prompt.emplace_back(static_cast<std::uint32_t>((id * 31 + i) % 251));
  return r;
}

/// A step with `state.range(0)` decoding sequences: plan, sample, commit blocks, outputs, events.
void decode_step(benchmark::State& state) {
  const tokenizer::ByteTokenizer tokenizer;
  engine::TimedExecutor executor({.step_time = perfmodel::StepTimeModel(spec::StepTimeSpec()), .output_length = {}},
                                 tokenizer);
  const auto sequences = static_cast<std::uint32_t>(state.range(0));
  engine::Core core({.model = "bench",
                     .kv_blocks = sequences * 3'300,
                     .max_batch_size = sequences,
                     .max_num_tokens = 65'536,
                     .max_model_len = 200'000},
                    executor);
  TimePoint now{};
  engine::StepPlan plan;
  engine::StepResult result;
  engine::StepOutputs outputs;
  const auto step = [&] {
    KVIST_CHECK(core.begin_step(now, plan), "the batch ran dry");
    now += *executor.duration(plan);
    executor.finish(plan, result);
    core.end_step(plan, result, outputs);
    return outputs.outputs.size();
  };
  for (std::uint32_t i = 1; i <= sequences; ++i) KVIST_CHECK(core.submit(request(i)).has_value(), "submit");
  while (core.stats().prefilled_tokens < sequences * 2'000U) benchmark::DoNotOptimize(step());
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(step());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(decode_step)->Name("engine/step_of_sequences")->Arg(16)->Arg(64)->Arg(256)->Iterations(20'000);

}  // namespace
