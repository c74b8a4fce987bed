// One word for the state of a worker.
#pragma once

#include <array>
#include <string_view>

#include "kvist/base/id.h"
#include "kvist/gateway/model_parts.h"

namespace kvist::gateway {

/// If several states apply to a worker, it is the first of them in this order.
inline constexpr std::array<std::string_view, 10> kWorkerStates = {
    "leaving", "draining", "cordoned", "other_model", "unhealthy", "stalled", "ejected", "trial", "suspect", "healthy"};
[[nodiscard]] std::string_view worker_state(const ModelParts& parts, WorkerId worker);

}  // namespace kvist::gateway
