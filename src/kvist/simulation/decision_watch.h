// Who looks at the routing decisions of a simulated run.
#pragma once

#include <functional>

#include "kvist/routing/decision_record.h"

namespace kvist::simulation {

/// Is called with the record of each request's first decision, with up to 64 candidates, when it has been made. While
/// nobody looks, the records keep the chosen worker only, which takes less time.
using DecisionWatch = std::function<void(const routing::DecisionRecord& record)>;

}  // namespace kvist::simulation
