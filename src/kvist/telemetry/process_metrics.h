// The operating system's figures of this process, under the names that all Prometheus client libraries use.
#pragma once

#include "kvist/telemetry/metrics.h"

namespace kvist::telemetry {

/// process_start_time_seconds (as given, in Unix time), process_cpu_seconds_total, process_resident_memory_bytes,
/// process_virtual_memory_bytes, process_open_fds, process_max_fds. Figures that cannot be read are left out.
void write_process_metrics(MetricsPage& page, double started_unix_s);

}  // namespace kvist::telemetry
