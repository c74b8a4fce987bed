// Traces of requests that NVIDIA Dynamo's frontend writes (docs/formats/trace.md): a trace, and how each was answered.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/workload/recorded_traffic.h"
#include "kvist/workload/trace_file.h"

namespace kvist::workload {

/// Whether a file begins as one of schema dynamo.request.trace.v1 does.
[[nodiscard]] bool is_dynamo_trace(std::string_view first_line);

/// Reads the text of one file: its rows of event_type request_end, in any order. A block that the prompt does not fill
/// has no id, as in records of kvist's. Which router was used is not told: mode dynamo stands in its place
/// (RecordedTraffic::tells_modes). Errors name the line and what would be right.
[[nodiscard]] Result<RecordedTraffic> parse_dynamo_trace(std::string_view text, const std::string& name,
                                                         const TraceLimits& limits = {});
/// Reads FILE and, if it is one of several segments (NAME.000003.jsonl.gz), those that follow it.
[[nodiscard]] Result<RecordedTraffic> load_dynamo_trace(const std::string& path, const TraceLimits& limits = {});

}  // namespace kvist::workload
