// Mooncake's trace format (docs/formats/trace.md): one JSON object per line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/spec/trace_spec.h"
#include "kvist/workload/trace.h"

namespace kvist::workload {

/// Bounds; a file that exceeds one is refused with the line.
struct TraceLimits {
  std::size_t line_bytes = std::size_t{4} << 20;  ///< a prompt of a million tokens has 16 kB of ids at 512 per hash
  std::size_t requests = 10'000'000;
  std::size_t hash_ids = 100'000'000;  ///< of all requests
};

/// What the user says of a trace.
struct TraceReading {
  /// What an id stands for, to see whether the lists of ids have that length; 0: what the file says, else
  /// kTokensPerHash.
  std::uint32_t tokens_per_hash = 0;
  spec::TraceRows rows = spec::TraceRows::kWhole;
};

/// Reads a trace from its text. Errors have `name`, the line, its content and what would be right.
[[nodiscard]] Result<Trace> parse_trace(std::string_view text, const std::string& name, const TraceLimits& limits = {},
                                        const TraceReading& reading = {});
/// Reads a trace from a file, piece by piece. It is opened more than once, so it must be a regular one.
[[nodiscard]] Result<Trace> load_trace(const std::string& path, const TraceLimits& limits = {},
                                       const TraceReading& reading = {});

/// An error if a trace is to be replayed at instants that it does not have. `name`: the file's.
[[nodiscard]] Result<void> check_instants(const Trace& trace, const spec::TraceSpec& replay, const std::string& name);

/// The text of a trace, which parse_trace() reads as the same trace, except that instants are rounded to microseconds,
/// that a block is taken to have 512 tokens, and that each follow-up has the answer in its prompt.
[[nodiscard]] std::string trace_text(const Trace& trace);
[[nodiscard]] Result<void> write_trace(const Trace& trace, const std::string& path);

}  // namespace kvist::workload
