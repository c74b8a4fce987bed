// How current what clusters say of their workers is, as metrics.
#pragma once

#include "kvist/gateway/kubernetes_groups.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

void write_discovery_metrics(const KubernetesGroups& services, telemetry::MetricsPage& page);

}  // namespace kvist::gateway
