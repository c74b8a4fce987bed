// The duration of an engine step.
#pragma once

#include <cstdint>

#include "kvist/base/time.h"
#include "kvist/perfmodel/step_load.h"
#include "kvist/spec/step_time_spec.h"

namespace kvist::perfmodel {

/// Linear in its four terms (spec::StepTimeSpec). Zero for an empty step.
[[nodiscard]] Duration step_time(const spec::StepTimeSpec& model, const StepLoad& load);

}  // namespace kvist::perfmodel
