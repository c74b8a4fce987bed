// The mapping of a linear step time, read and written: a worker's `step_time`, the gateway's `latency_prior`.
#pragma once

#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/step_time_spec.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

/// What is missing keeps its value. Refuses a step that takes no time.
[[nodiscard]] Result<void> read_step_time(const YamlNode& node, StepTimeSpec& step);
void write_step_time(YamlWriter& out, std::string_view key, const StepTimeSpec& step);

}  // namespace kvist::spec
