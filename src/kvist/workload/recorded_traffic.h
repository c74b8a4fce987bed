// Traffic that a gateway recorded, kvist's or another one: a trace, and how each request was answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/spec/routing_mode.h"
#include "kvist/workload/trace.h"
#include "kvist/workload/trace_file.h"

namespace kvist::workload {

/// What a gateway saw of a request (docs/formats/record.md).
struct ObservedRequest {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::string worker = {};
  bool completed = false;  ///< the worker's answer went out whole
  std::optional<double> ttft_ms = {};
  std::optional<double> tpot_ms = {};
  double latency_ms = 0;
  std::optional<std::uint32_t> cached_tokens = {};

  bool operator==(const ObservedRequest&) const = default;
};

/// The head of a record's file.
struct RecordHead {
  std::uint64_t recording = 0;
  std::uint64_t part = 0;
  std::string model = {};
  std::uint32_t tokens_per_hash = 0;
  std::vector<std::string> workers = {};

  bool operator==(const RecordHead&) const = default;
};

/// The requests that reached a worker, in the order of their arrival. A request that waited for an earlier answer has
/// TraceRequest::after.
struct RecordedTraffic {
  RecordHead head = {};  ///< of the first part
  Trace trace = {};
  std::vector<ObservedRequest> observed = {};  ///< by place in the trace
  std::size_t unserved = 0;                    ///< left out: no worker answered them
  bool tells_modes = true;                     ///< otherwise ObservedRequest::mode is a guess
  std::size_t prefilled_elsewhere = 0;         ///< requests whose prompts other workers computed than gave the answers
};

/// Reads the text of one file. A last line without an end is left out, because its writer was stopped.
[[nodiscard]] Result<RecordedTraffic> parse_record(std::string_view text, const std::string& name,
                                                   const TraceLimits& limits = {});
/// Reads FILE and, if they are of the same recording, FILE.1, FILE.2 and so on.
[[nodiscard]] Result<RecordedTraffic> load_record(const std::string& path, const TraceLimits& limits = {});

/// Reads a record of kvist's, or what tells as much: a trace of Dynamo's.
[[nodiscard]] Result<RecordedTraffic> load_traffic(const std::string& path, const TraceLimits& limits = {});

/// Whether a file begins as a record does.
[[nodiscard]] bool is_record(std::string_view first_line);

}  // namespace kvist::workload
