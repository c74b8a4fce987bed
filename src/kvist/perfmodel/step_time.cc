#include "kvist/perfmodel/step_time.h"

#include <cmath>

namespace kvist::perfmodel {

Duration step_time(const spec::StepTimeSpec& model, const StepLoad& load) {
  if (load.sequences == 0) return Duration::zero();
  // Whole nanoseconds are integers, so that sums are exact. Only the term with the sub-nanosecond coefficient is
  // rounded, once.
  const Duration kv_read(std::llround(model.per_kv_token_ns * static_cast<double>(load.kv_tokens_read)));
  return model.fixed + model.per_prefill_token * static_cast<std::int64_t>(load.prefill_tokens) +
         model.per_sequence * static_cast<std::int64_t>(load.sequences) + kv_read;
}

}  // namespace kvist::perfmodel
