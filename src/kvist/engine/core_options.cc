#include "kvist/engine/core_options.h"

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
          .prefix_deferral = worker.prefix_deferral};
}

}  // namespace kvist::engine
