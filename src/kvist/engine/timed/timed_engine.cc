#include "kvist/engine/timed/timed_engine.h"

#include "kvist/engine/timed/timed_executor.h"

namespace kvist::engine {

CoreOptions core_options(const spec::WorkerSpec& worker) {
  return {.model = worker.model,
          .block_size = worker.block_size,
          .kv_blocks = worker.kv_blocks,
          .max_batch_size = worker.max_batch_size,
          .max_num_tokens = worker.max_num_tokens,
          .max_model_len = worker.max_model_len,
          .max_waiting = worker.max_waiting,
          .max_steps_in_flight = worker.max_steps_in_flight,
          .admission = worker.admission,
          .prefix_deferral = worker.prefix_deferral,
          .speculation = worker.speculation};
}

Result<std::unique_ptr<EngineDriver>> make_timed_engine(const spec::WorkerSpec& worker,
                                                        const text::Tokenizer& tokenizer) {
  const TimedExecutor::Options options{
      .step_time = worker.step_time, .output_length = worker.output_length, .time_scale = worker.time_scale};
  return std::make_unique<EngineDriver>(core_options(worker), std::make_unique<TimedExecutor>(options, tokenizer));
}

}  // namespace kvist::engine
