// Mooncake's trace format (docs/formats/trace.md): one JSON object per line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/workload/trace.h"

namespace kvist::workload {

/// What is read at most; a file beyond it is refused with the line.
struct TraceLimits {
  std::size_t line_bytes = std::size_t{4} << 20;  ///< a prompt of a million tokens has 16 kB of ids at 512 per hash
  std::size_t requests = 10'000'000;
  std::size_t hash_ids = 100'000'000;  ///< of all requests
};

/// A trace from its text. Errors name `name`, the line, what it holds and what would be right.
[[nodiscard]] Result<Trace> parse_trace(std::string_view text, const std::string& name, const TraceLimits& limits = {});
/// A trace from a file, read piece by piece.
[[nodiscard]] Result<Trace> load_trace(const std::string& path, const TraceLimits& limits = {});

/// The text that parse_trace() reads back to the same trace; instants are rounded to microseconds.
[[nodiscard]] std::string trace_text(const Trace& trace);
[[nodiscard]] Result<void> write_trace(const Trace& trace, const std::string& path);

}  // namespace kvist::workload
