// The metrics of which requests may begin: those that are refused or held, and how many workers they need.
#pragma once

#include "kvist/dispatch/dispatcher.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

void write_admission_metrics(const dispatch::Dispatcher& dispatcher, telemetry::MetricsPage& page);

}  // namespace kvist::gateway
