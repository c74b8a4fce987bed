// Generates traces like those of real users: conversations whose prompts grow turn by turn.
#pragma once

#include <cstdint>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/spec/workload.h"
#include "kvist/workload/trace.h"

namespace kvist::workload {

/// The options of a generated trace.
struct TraceOptions {
  /// Turns, starters, lengths (by their laws), starts per second, tokens per hash and seed. Answers have the length
  /// that is drawn as their limit; if only one limit for all is given, output_tokens_min to that, unless ignore_eos is
  /// set.
  spec::WorkloadSpec workload;
  std::uint32_t conversations = 1'000;
  std::uint32_t output_tokens_min = 16;
  Duration think_time = std::chrono::seconds(10);           ///< mean of an exponential, between answer and next turn
  Duration time_per_token = std::chrono::milliseconds(25);  ///< the speed of the answers that the users got
  Duration time_to_first_token = std::chrono::milliseconds(500);
};

/// Generates a trace like Mooncake's. Conversations begin as a Poisson process of the workload's rate. Each turn's
/// prompt is the one before, its answer and a follow-up. Complete blocks with the same content have the same id; ids
/// count up in the order of their first appearance. The incomplete block at the end of a prompt has an id of its own,
/// except that first turns with the same starter are equal. The trace depends on the options alone. Errors:
/// check_workload()'s, counts of 0, more than 10 million requests.
[[nodiscard]] Result<Trace> generate_trace(const TraceOptions& options);

}  // namespace kvist::workload
