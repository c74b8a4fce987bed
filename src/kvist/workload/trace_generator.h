// Traces like those of real users: conversations whose prompts grow turn by turn.
#pragma once

#include <cstdint>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/spec/workload.h"
#include "kvist/workload/trace.h"

namespace kvist::workload {

/// What is generated.
struct TraceOptions {
  /// Turns, starters, lengths, starts per second, tokens per hash and seed; answers have 1 to max_tokens tokens or
  /// those of output_tokens_min.
  spec::WorkloadSpec workload;
  std::uint32_t conversations = 1'000;
  std::uint32_t output_tokens_min = 16;
  Duration think_time = std::chrono::seconds(10);           ///< mean of an exponential, between answer and next turn
  Duration time_per_token = std::chrono::milliseconds(25);  ///< how fast the users once were answered
  Duration time_to_first_token = std::chrono::milliseconds(500);
};

/// A trace in the manner of Mooncake's: conversations begin as a Poisson process of the workload's rate; each turn's
/// prompt is the one before, its answer and a follow-up; complete blocks of equal content have one id, counted up in
/// the order in which they first appear; the incomplete block at a prompt's end has an id of its own, but for first
/// turns with one starter, which are equal. Depends on the options alone. Errors: check_workload()'s, counts of 0, more
/// than 10 million requests.
[[nodiscard]] Result<Trace> generate_trace(const TraceOptions& options);

}  // namespace kvist::workload
