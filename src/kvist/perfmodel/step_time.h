// How long one engine step takes.
#pragma once

#include <cstdint>

#include "kvist/base/time.h"
#include "kvist/spec/step_time_spec.h"

namespace kvist::perfmodel {

/// What a step computes, as far as its duration depends on it.
struct StepLoad {
  std::uint64_t prefill_tokens = 0;  ///< prompt tokens computed in this step
  std::uint64_t sequences = 0;       ///< sequences that take part
  std::uint64_t kv_tokens_read = 0;  ///< sum over sequences of the context their attention reads
};

/// Linear in its four terms (spec::StepTimeSpec). Zero for an empty step.
[[nodiscard]] Duration step_time(const spec::StepTimeSpec& model, const StepLoad& load);

}  // namespace kvist::perfmodel
