// A line of the access log.
#pragma once

#include <string>

#include "kvist/gateway/request_report.h"
#include "kvist/spec/observation_spec.h"

namespace kvist::gateway {

/// Returns the line with its line break. `ended_unix` is the instant at which the request ended, in Unix seconds. As
/// text it is a time and `name=value` pairs; a value with blanks, quotes or anything that is not printable is a JSON
/// string, so that no client can forge a line or a field. Fields of what did not happen are left out.
[[nodiscard]] std::string access_line(const RequestReport& report, spec::LogFormat format, double ended_unix);

/// "2026-11-23T22:08:59.123Z"
[[nodiscard]] std::string utc_text(double unix_seconds);

}  // namespace kvist::gateway
