// Requests that somebody's users once sent, as plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::workload {

/// One request of a trace. Its text is not recorded, only which of its prefixes it shares with others: prompt tokens
/// [i x n, (i + 1) x n) are those that hash_ids[i] stands for (n: tokens per hash), so that two requests whose lists
/// begin alike have prompts that begin alike. The last id covers what is left.
struct TraceRequest {
  Duration at{};                    ///< since the beginning of the trace's clock
  std::uint32_t input_tokens = 0;   ///< of the whole prompt, chat template included
  std::uint32_t output_tokens = 0;  ///< of the answer
  std::vector<std::uint64_t> hash_ids;

  bool operator==(const TraceRequest&) const = default;
};

/// Requests in the order of their instants. Immutable once loaded: any thread may read it.
struct Trace {
  std::vector<TraceRequest> requests;

  bool operator==(const Trace&) const = default;
};

}  // namespace kvist::workload
