#include "kvist/workload/trace_outcome.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvist::workload {

void TraceOutcome::add(const std::vector<TurnSample>& turns) {
  if (!trace_) return;
  for (const TurnSample& turn : turns) {
    ++sent_;
    last_ended_ = std::max(last_ended_, turn.ended);
    // Only usage tells tokens from chunks, which may have several.
    if (turn.outcome != TurnOutcome::kSucceeded || turn.completion_tokens == 0) continue;
    ++answered_;
    const std::uint64_t place = turn.conversation.value();
    const auto recorded = [this](std::uint64_t of) { return trace_->requests[of].output_tokens; };
    if (place >= trace_->requests.size() || turn.completion_tokens >= recorded(place)) continue;
    const bool lacks_most =
        short_ == 0 || recorded(place) - turn.completion_tokens > recorded(shortest_.place) - shortest_.tokens;
    if (lacks_most) shortest_ = {.place = place, .tokens = turn.completion_tokens};
    ++short_;
  }
}

std::vector<std::string> TraceOutcome::remarks(TimePoint started, TimePoint measure_to) const {
  std::vector<std::string> remarks;
  if (!trace_) return remarks;
  const std::size_t requests = trace_->requests.size();
  if (sent_ < requests) {
    remarks.push_back(fmt::format("{} of the trace's {} requests were sent before the load ended", sent_, requests));
  } else if (last_ended_ < measure_to) {
    remarks.push_back(fmt::format(
        "the trace ended {:.1f} s after the load's start and was measured up to {:.1f} s: rates of windows that reach "
        "beyond its end are too low",
        to_seconds(last_ended_ - started), to_seconds(measure_to - started)));
  }
  if (short_ > 0) {
    remarks.push_back(fmt::format(
        "{} of {} answers are shorter than the trace has them, most of all that of request {} (from 0): {} of {} "
        "tokens; prompt and answer together may exceed what the workers allow (max_model_len)",
        short_, answered_, shortest_.place, shortest_.tokens, trace_->requests[shortest_.place].output_tokens));
  }
  return remarks;
}

}  // namespace kvist::workload
