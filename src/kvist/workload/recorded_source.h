// A recorded level as load.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/spec/trace_spec.h"
#include "kvist/workload/conversation.h"
#include "kvist/workload/dataset.h"
#include "kvist/workload/recorded_level.h"
#include "kvist/workload/turn_source.h"

namespace kvist::workload {

/// Drives the conversations of a recorded level again, with their ids, starters, follow-ups, max_tokens and answer
/// seeds, but with live replies. A conversation has the turns that were recorded, from turn 0 up to the first gap. If a
/// turn fails, the conversation ends, and its later turns are counted as dropped.
///  - Open loop: each turn is due at its recorded instant divided by `speed`, but not before the reply to the turn
///    before it, which is part of its history. If it has to wait for that reply, later turns keep their own instants.
///  - Closed loop: conversations start in their recorded order, as many at once as there are places, and each turn is
///    due as soon as the reply before it has come.
/// The record is shared and not changed. Threads: one.
class RecordedRunSource final : public TurnSource {
 public:
  struct Options {
    spec::TraceLoop loop = spec::TraceLoop::kOpen;
    double speed = 1;               ///< above 0
    std::uint32_t concurrency = 1;  ///< closed loop; at least 1
  };

  /// Requires: a workload that check_workload() accepts and options within the bounds above.
  RecordedRunSource(std::shared_ptr<const RecordedLevel> level, const Options& options, TimePoint start);
  RecordedRunSource(const RecordedRunSource&) = delete;  // conversations refer to its data set
  RecordedRunSource& operator=(const RecordedRunSource&) = delete;

  [[nodiscard]] std::optional<TimePoint> next_wakeup() const override;
  [[nodiscard]] std::vector<StartTurn> poll(TimePoint now) override;
  [[nodiscard]] std::vector<StartTurn> on_turn_finished(ConversationId conversation, std::string reply,
                                                        TurnOutcome outcome, TimePoint now) override;
  void stop() override { stopped_ = true; }

  [[nodiscard]] bool stopped() const override { return stopped_; }
  /// Linear in the conversations alive.
  [[nodiscard]] bool is_exhausted() const override;
  [[nodiscard]] std::uint32_t in_flight() const override { return in_flight_; }
  [[nodiscard]] std::uint64_t conversations_started() const override { return next_; }
  /// The number of recorded turns that were not sent because their conversation had failed.
  [[nodiscard]] std::uint64_t dropped_slots() const override { return dropped_turns_; }

 private:
  /// The instants of one conversation's turns, in order.
  struct Script {
    ConversationId id;
    std::vector<Duration> sent;
  };
  struct Alive {
    const Script* script;
    Conversation conversation;
    bool in_flight = true;
  };

  [[nodiscard]] TimePoint recorded_instant(const Script& script, std::uint32_t turn) const;
  /// When the next conversation begins; nothing if none is left or, in a closed loop, no place is free.
  [[nodiscard]] std::optional<TimePoint> next_start() const;
  [[nodiscard]] StartTurn start_next(TimePoint due);
  [[nodiscard]] StartTurn turn_of(Alive& alive, TimePoint intended);
  void end(std::map<ConversationId, Alive>::iterator entry, TimePoint now);

  const std::shared_ptr<const RecordedLevel> level_;
  const Options options_;
  const TimePoint start_;
  const Dataset dataset_;
  std::vector<Script> scripts_;  // in the order of their first turn's instant
  std::size_t next_ = 0;         // index of the first script that has not begun
  std::map<ConversationId, Alive> alive_;
  std::set<std::pair<TimePoint, ConversationId>> waiting_;  // open loop: turns whose instant has not come yet
  std::deque<TimePoint> free_since_;                        // closed loop: one per free place, the longest free first
  std::uint32_t in_flight_ = 0;
  std::uint64_t dropped_turns_ = 0;
  bool stopped_ = false;
};

}  // namespace kvist::workload
