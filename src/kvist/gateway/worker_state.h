// One word for what is the matter with a worker.
#pragma once

#include <array>
#include <string_view>

#include "kvist/base/id.h"
#include "kvist/gateway/model_parts.h"

namespace kvist::gateway {

/// Of several states that apply, the first one in this order is a worker's.
inline constexpr std::array<std::string_view, 10> kWorkerStates = {
    "leaving", "draining", "cordoned", "other_model", "unhealthy", "stalled", "ejected", "trial", "suspect", "healthy"};
[[nodiscard]] std::string_view worker_state(const ModelParts& parts, WorkerId worker);

}  // namespace kvist::gateway
