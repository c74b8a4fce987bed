// What the operating system says of this process, under the names that every Prometheus client library uses.
#pragma once

#include "kvist/telemetry/metrics.h"

namespace kvist::telemetry {

/// process_start_time_seconds (as given, in Unix time), process_cpu_seconds_total, process_resident_memory_bytes,
/// process_virtual_memory_bytes, process_open_fds, process_max_fds. What cannot be read is left out.
void write_process_metrics(MetricsPage& page, double started_unix_s);

}  // namespace kvist::telemetry
