// Metrics of discovery: how current each cluster's list of workers is.
#pragma once

#include "kvist/gateway/kubernetes_groups.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

void write_discovery_metrics(const KubernetesGroups& services, telemetry::MetricsPage& page);

}  // namespace kvist::gateway
