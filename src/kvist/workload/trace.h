// A trace of requests, as plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::workload {

/// One request of a trace. Its text is not recorded, only which prefixes it shares with others: hash_ids[i] stands for
/// the prompt tokens [i x n, (i + 1) x n), where n is the number of tokens per hash. So two requests whose lists begin
/// alike have prompts that begin alike. The last id covers the remaining tokens.
struct TraceRequest {
  Duration at{};                    ///< time since the beginning of the trace
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
