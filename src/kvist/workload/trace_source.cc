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
      follow_ups_(*trace_, options.sessions, options.tokens_per_hash),
      is_in_flight_(trace_->requests.size()) {
  KVIST_CHECK(std::isfinite(options_.speed) && options_.speed > 0, "the speed of a trace must be above 0");
  KVIST_CHECK(options_.concurrency >= 1, "at least one place");
  if (!is_open()) free_since_.assign(options_.shard.share(options_.concurrency), start);
  next_ = options_.shard.index;
  requests_ = count_requests();
}

std::size_t TraceSource::count_requests() const {
  if (options_.shard.count == 1) return trace_->requests.size();
  std::vector<bool> is_own(trace_->requests.size());
  for (std::size_t i = options_.shard.index; i < follow_ups_.firsts().size(); i += options_.shard.count) {
    is_own[follow_ups_.firsts()[i]] = true;
  }
  std::size_t count = 0;
  for (std::uint32_t place = 0; place < is_own.size(); ++place) count += is_own[follow_ups_.session_of(place)] ? 1 : 0;
  return count;
}

Duration TraceSource::scaled(Duration recorded) const {
  return options_.speed == 1 ? recorded : from_seconds(to_seconds(recorded) / options_.speed);
}

TimePoint TraceSource::recorded_instant(std::uint32_t place) const {
  const std::vector<TraceRequest>& requests = trace_->requests;
  return start_ + scaled(requests[place].at - requests[follow_ups_.firsts().front()].at);
}

std::optional<TimePoint> TraceSource::next_first() const {
  if (next_ >= follow_ups_.firsts().size()) return std::nullopt;
  return is_open() ? recorded_instant(follow_ups_.firsts()[next_]) : free_since_.front();
}

std::optional<TimePoint> TraceSource::next_wakeup() const {
  if (stopped_ || (!is_open() && free_since_.empty())) return std::nullopt;
  std::optional<TimePoint> next = next_first();
  if (!waiting_.empty() && (!next || waiting_.begin()->first < *next)) next = waiting_.begin()->first;
  return next;
}

std::vector<StartTurn> TraceSource::poll(TimePoint now) {
  std::vector<StartTurn> actions;
  for (auto due = next_wakeup(); due && *due <= now; due = next_wakeup()) {
    // In a closed loop a session that has begun goes on before another begins.
    const bool follows = !waiting_.empty() && (!is_open() || waiting_.begin()->first == *due);
    const std::uint32_t place = follows ? waiting_.begin()->second : follow_ups_.firsts()[next_];
    if (follows) {
      due = waiting_.begin()->first;
      waiting_.erase(waiting_.begin());
    } else {
      next_ += options_.shard.count;
    }
    if (!is_open()) free_since_.pop_front();
    actions.push_back(start(place, *due));
  }
  return actions;
}

std::vector<StartTurn> TraceSource::on_turn_finished(ConversationId conversation, std::string reply,
                                                     TurnOutcome outcome, TimePoint now) {
  const std::uint64_t index = conversation.value();
  KVIST_CHECK(index < is_in_flight_.size() && is_in_flight_[index],
              fmt::format("request {} of the trace is not in flight", index));
  is_in_flight_[index] = false;
  --in_flight_;
  if (!is_open()) free_since_.push_back(now);
  const auto place = static_cast<std::uint32_t>(index);
  if (outcome == TurnOutcome::kSucceeded) follow_ups_.on_answered(place, std::move(reply));
  if (!stopped_) take_up_followers(place, now);
  return poll(now);
}

// A failed answer is the end of the wait all the same: the trace says that its user went on.
void TraceSource::take_up_followers(std::uint32_t place, TimePoint now) {
  follow_ups_.for_each_follower(place, [&](std::uint32_t follower) {
    TimePoint due = now;
    if (is_open()) {
      const std::optional<Duration>& pause = trace_->requests[follower].after->pause;
      due = pause ? now + scaled(*pause) : std::max(now, recorded_instant(follower));
    }
    waiting_.emplace(due, follower);
  });
}

StartTurn TraceSource::start(std::uint32_t place, TimePoint intended) {
  const TraceRequest& request = trace_->requests[place];
  is_in_flight_[place] = true;
  ++in_flight_;
  ++started_;
  std::optional<std::vector<text::ChatMessage>> messages;
  if (const TraceFollowUps::Said* const said = follow_ups_.said_before(place)) {
    messages = prompts_.continued(said->messages, said->answer, request, place);
  }
  if (!messages) messages = {{"user", prompts_.message_of(request, place)}};
  follow_ups_.on_sent(place, *messages);
  return {.conversation = ConversationId(place),
          .turn = 0,
          .session = ConversationId(follow_ups_.session_of(place)),
          .messages = *std::move(messages),
          .max_tokens = std::max<std::uint32_t>(request.output_tokens, 1),
          // Below 2^53, so that every JSON reader keeps it exact.
          .seed = mix_seed({options_.seed, seed_part("trace answer"), place}) >> 11,
          .ignore_eos = true,
          .intended = intended};
}

}  // namespace kvist::workload
