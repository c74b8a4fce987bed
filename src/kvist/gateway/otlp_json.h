// Spans as OTLP/HTTP in JSON (opentelemetry-proto 1.x, trace/v1).
#pragma once

#include <memory>
#include <span>
#include <string>

#include "kvist/gateway/request_report.h"

namespace kvist::gateway {

/// What is the same for all spans of a process.
struct SpanSource {
  std::string service_name;
  std::string instance;     ///< differs between processes
  double clock_unix_s = 0;  ///< the calendar's time at the epoch of core time
};

/// The body of an ExportTraceServiceRequest with the spans of these requests: one for the request (server), one for its
/// routing, and one for each attempt (client), which is the parent of what the worker records. Requires: all are
/// traced.
[[nodiscard]] std::string otlp_json(const SpanSource& source,
                                    std::span<const std::shared_ptr<const RequestReport>> reports);

}  // namespace kvist::gateway
