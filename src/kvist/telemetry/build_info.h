// Which kvist this is, for dashboards.
#pragma once

#include <string>

#include "kvist/base/version.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::telemetry {

/// kvist_build_info: always 1, with the version and what the process is ("gateway", "worker", "loadgen").
inline void write_build_info(MetricsPage& page, const std::string& service) {
  page.gauge("kvist_build_info", "The version of kvist, in labels.", 1,
             {{"version", std::string(kVersion)}, {"service", service}});
}

}  // namespace kvist::telemetry
