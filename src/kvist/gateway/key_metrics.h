// The metrics of API keys.
#pragma once

#include "kvist/gateway/key_gate.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

/// Writes what was asked of the keys that were used, by name; of a thousand at most, and of the others together.
void write_key_metrics(const KeyGate& gate, telemetry::MetricsPage& page);

}  // namespace kvist::gateway
