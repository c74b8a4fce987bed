#include "kvist/workload/recorded_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "kvist/base/check.h"

namespace kvist::workload {

RecordedRunSource::RecordedRunSource(std::shared_ptr<const RecordedLevel> level, const Options& options,
                                     TimePoint start)
    : level_(std::move(level)), options_(options), start_(start), dataset_(level_->workload, level_->seed) {
  KVIST_CHECK(std::isfinite(options_.speed) && options_.speed > 0, "the speed of a replay must be above 0");
  KVIST_CHECK(options_.concurrency >= 1, "at least one place");
  std::vector<RecordedTurn> turns = level_->turns;
  std::ranges::sort(turns, {}, [](const RecordedTurn& t) { return std::tuple(t.conversation, t.turn, t.sent); });
  for (const RecordedTurn& turn : turns) {
    if (turn.turn == 0 && (scripts_.empty() || scripts_.back().id != turn.conversation)) {
      scripts_.push_back({turn.conversation, {}});
    }
    // A turn after a missing one has no history.
    if (scripts_.empty() || scripts_.back().id != turn.conversation) continue;
    if (scripts_.back().sent.size() == turn.turn) scripts_.back().sent.push_back(turn.sent);
  }
  std::ranges::sort(scripts_, {}, [](const Script& s) { return std::tuple(s.sent.front(), s.id); });
  if (options_.loop == spec::TraceLoop::kClosed) free_since_.assign(options_.concurrency, start);
}

TimePoint RecordedRunSource::recorded_instant(const Script& script, std::uint32_t turn) const {
  const Duration sent = script.sent[turn];
  return start_ + (options_.speed == 1 ? sent : from_seconds(to_seconds(sent) / options_.speed));
}

std::optional<TimePoint> RecordedRunSource::next_start() const {
  if (next_ == scripts_.size()) return std::nullopt;
  if (options_.loop == spec::TraceLoop::kOpen) return recorded_instant(scripts_[next_], 0);
  if (free_since_.empty()) return std::nullopt;
  return free_since_.front();
}

std::optional<TimePoint> RecordedRunSource::next_wakeup() const {
  if (stopped_) return std::nullopt;
  std::optional<TimePoint> next = next_start();
  if (!waiting_.empty() && (!next || waiting_.begin()->first < *next)) next = waiting_.begin()->first;
  return next;
}

std::vector<StartTurn> RecordedRunSource::poll(TimePoint now) {
  std::vector<StartTurn> actions;
  for (auto due = next_wakeup(); due && *due <= now; due = next_wakeup()) {
    if (!waiting_.empty() && waiting_.begin()->first == *due) {
      const auto entry = alive_.find(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
      actions.push_back(turn_of(entry->second, *due));
    } else {
      actions.push_back(start_next(*due));
    }
  }
  return actions;
}

StartTurn RecordedRunSource::start_next(TimePoint due) {
  const Script& script = scripts_[next_++];
  if (options_.loop == spec::TraceLoop::kClosed) free_since_.pop_front();
  const auto [entry, inserted] =
      alive_.emplace(script.id, Alive{&script, Conversation(level_->workload, dataset_, level_->seed, script.id)});
  return turn_of(entry->second, due);
}

StartTurn RecordedRunSource::turn_of(Alive& alive, TimePoint intended) {
  alive.in_flight = true;
  ++in_flight_;
  return {.conversation = alive.conversation.id(),
          .turn = alive.conversation.turn(),
          .messages = alive.conversation.messages(),
          .max_tokens = level_->workload.max_tokens,
          .seed = alive.conversation.answer_seed(),
          .ignore_eos = level_->workload.ignore_eos,
          .intended = intended};
}

std::vector<StartTurn> RecordedRunSource::on_turn_finished(ConversationId conversation, std::string reply,
                                                           TurnOutcome outcome, TimePoint now) {
  const auto entry = alive_.find(conversation);
  KVIST_CHECK(entry != alive_.end() && entry->second.in_flight,
              fmt::format("conversation {} has no turn in flight", conversation.value()));
  Alive& alive = entry->second;
  alive.in_flight = false;
  --in_flight_;
  const bool is_last = alive.conversation.turn() + 1 >= alive.script->sent.size();
  const bool goes_on =
      !stopped_ && outcome == TurnOutcome::kSucceeded && !is_last && alive.conversation.advance(std::move(reply));
  if (!goes_on) {
    end(entry, now);
    return poll(now);
  }
  TimePoint due = now;
  if (options_.loop == spec::TraceLoop::kOpen) {
    due = std::max(now, recorded_instant(*alive.script, alive.conversation.turn()));
  }
  // The turn goes through the queue, so that turns that are due at the same instant are sent in a fixed order.
  waiting_.emplace(due, conversation);
  return poll(now);
}

bool RecordedRunSource::is_exhausted() const {
  if (stopped_) return true;
  return next_ == scripts_.size() && waiting_.empty() && std::ranges::all_of(alive_, [](const auto& entry) {
           return entry.second.conversation.turn() + 1 >= entry.second.script->sent.size();
         });
}

void RecordedRunSource::end(std::map<ConversationId, Alive>::iterator entry, TimePoint now) {
  const Alive& alive = entry->second;
  if (!stopped_) dropped_turns_ += alive.script->sent.size() - alive.conversation.turn() - 1;
  alive_.erase(entry);
  if (options_.loop == spec::TraceLoop::kClosed) free_since_.push_back(now);
}

}  // namespace kvist::workload
