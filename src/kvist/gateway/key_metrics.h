// The metrics of API keys.
#pragma once

#include "kvist/gateway/key_gate.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

/// Writes the counts of the keys that were used: by name for at most a thousand of them, and summed for the others.
void write_key_metrics(const KeyGate& gate, telemetry::MetricsPage& page);

}  // namespace kvist::gateway
