#include "kvist/workload/trace_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/random.h"

namespace kvist::workload {

TraceSource::TraceSource(std::shared_ptr<const Trace> trace, const Options& options, TimePoint start)
    : trace_(std::move(trace)),
      options_(options),
      start_(start),
      prompts_(options.seed, options.tokens_per_hash),
      is_in_flight_(trace_->requests.size()) {
  KVIST_CHECK(std::isfinite(options_.speed) && options_.speed > 0, "the speed of a trace must be above 0");
  KVIST_CHECK(options_.concurrency >= 1, "at least one place");
  if (options_.loop == spec::TraceLoop::kClosed) free_since_.assign(options_.concurrency, start);
}

std::optional<TimePoint> TraceSource::next_wakeup() const {
  if (stopped_ || next_ == trace_->requests.size()) return std::nullopt;
  if (options_.loop == spec::TraceLoop::kClosed) {
    if (free_since_.empty()) return std::nullopt;
    return free_since_.front();
  }
  const Duration since_first = trace_->requests[next_].at - trace_->requests.front().at;
  return start_ + (options_.speed == 1 ? since_first : from_seconds(to_seconds(since_first) / options_.speed));
}

std::vector<StartTurn> TraceSource::poll(TimePoint now) {
  std::vector<StartTurn> actions;
  for (auto due = next_wakeup(); due && *due <= now; due = next_wakeup()) {
    if (options_.loop == spec::TraceLoop::kClosed) free_since_.pop_front();
    is_in_flight_[next_] = true;
    ++in_flight_;
    actions.push_back(turn_of(next_, *due));
    ++next_;
  }
  return actions;
}

std::vector<StartTurn> TraceSource::on_turn_finished(ConversationId conversation, std::string /*reply*/,
                                                     TurnOutcome /*outcome*/, TimePoint now) {
  const std::uint64_t index = conversation.value();
  KVIST_CHECK(index < is_in_flight_.size() && is_in_flight_[index],
              fmt::format("request {} of the trace is not in flight", index));
  is_in_flight_[index] = false;
  --in_flight_;
  if (options_.loop == spec::TraceLoop::kClosed) free_since_.push_back(now);
  return poll(now);
}

StartTurn TraceSource::turn_of(std::size_t index, TimePoint intended) const {
  const TraceRequest& request = trace_->requests[index];
  return {.conversation = ConversationId(index),
          .turn = 0,
          .messages = {{"user", prompts_.message_of(request, index)}},
          .max_tokens = std::max<std::uint32_t>(request.output_tokens, 1),
          // Below 2^53, so that every JSON reader keeps it exact.
          .seed = mix_seed({options_.seed, seed_part("trace answer"), index}) >> 11,
          .ignore_eos = true,
          .intended = intended};
}

}  // namespace kvist::workload
