// bench: workload
// The cost of the client's bookkeeping: a chunk of an answer, a snapshot over a full window.
#include <benchmark/benchmark.h>

#include "kvist/workload/recorder.h"
#include "kvist/workload/trace_prompt.h"
#include "kvist/workload/turn_clock.h"

namespace kvist::workload {
namespace {

constexpr std::uint32_t kTurnsAtOnce = 64;
constexpr std::uint32_t kChunks = 840;

/// One worker's steps of 20 ms: 64 answers grow by a chunk each, the recorder is called once per step.
void steps_of_64_turns(benchmark::State& state) {
  Recorder recorder(std::chrono::seconds(60));
  TimePoint now{};
  for (auto _ : state) {
    std::vector<TurnClock> clocks;
    for (std::uint32_t turn = 0; turn < kTurnsAtOnce; ++turn) clocks.emplace_back(ConversationId(turn), 0, now);
    for (std::uint32_t step = 0; step < kChunks; ++step) {
      now += std::chrono::milliseconds(20);
      for (TurnClock& clock : clocks) clock.on_content(now);
      recorder.on_content_chunks(now, kTurnsAtOnce);
    }
    for (TurnClock& clock : clocks) {
      clock.on_usage(4'000, 3'000, kChunks);
      recorder.on_turn_finished(clock.finish(TurnOutcome::kSucceeded, "", now), now);
    }
    benchmark::DoNotOptimize(recorder.take_samples().size());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kTurnsAtOnce * kChunks);
}
BENCHMARK(steps_of_64_turns)->Name("workload/record_chunk_of_an_answer");

/// The text of a Mooncake request of 8,192 tokens: 16 ids.
void prompt_of_a_trace(benchmark::State& state) {
  const TracePrompts prompts(1, 512);
  TraceRequest request{.at = {}, .input_tokens = 8'192, .output_tokens = 1, .hash_ids = {}};
  for (std::uint64_t id = 0; id < 16; ++id) request.hash_ids.push_back(id);
  for (auto _ : state) benchmark::DoNotOptimize(prompts.message_of(request, 0).data());
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * request.input_tokens);
}
BENCHMARK(prompt_of_a_trace)->Name("workload/prompt_of_8192_trace_tokens");

}  // namespace
}  // namespace kvist::workload
