// The interface of a load: decides which turn is sent when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/text/chat.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::workload {

/// An action of a source: send this turn now.
struct StartTurn {
  ConversationId conversation;
  std::uint32_t turn = 0;                      ///< from 0
  std::optional<ConversationId> session = {};  ///< what it belongs to, where that is not the conversation alone
  std::vector<text::ChatMessage> messages;
  std::uint32_t max_tokens = 0;
  std::uint64_t seed = 0;
  bool ignore_eos = false;  ///< the answer runs to max_tokens: how a trace fixes its length
  TimePoint intended;       ///< when it should go out: the start's due instant, or the end of the reply before it
  /// Since when it could go out: later than `intended` if it waited for a place; nothing: since `intended`.
  std::optional<TimePoint> ready = {};

  [[nodiscard]] TimePoint ready_or_intended() const { return ready.value_or(intended); }
  [[nodiscard]] ConversationId session_or_conversation() const { return session.value_or(conversation); }
};

/// Open arrivals that had to wait for a place.
struct HeldBack {
  std::uint64_t sent_late = 0;  ///< when a conversation ended
  std::uint64_t not_sent = 0;   ///< due and still waiting

  [[nodiscard]] std::uint64_t total() const { return sent_late + not_sent; }
  bool operator==(const HeldBack&) const = default;
};

/// A change of a load under way; what is not set stays as it is.
struct LoadChange {
  std::optional<std::uint32_t> concurrency = {};    ///< closed loop: conversations at once
  std::optional<double> max_start_rate = {};        ///< closed loop: starts per second at most; 0: no limit
  std::optional<double> rate = {};                  ///< open loop: starts per second
  std::optional<std::uint32_t> max_in_flight = {};  ///< open loop: conversations alive at most

  [[nodiscard]] bool is_empty() const { return *this == LoadChange{}; }
  /// These settings, with those of `later` where it has some.
  [[nodiscard]] LoadChange then(const LoadChange& later) const;
  bool operator==(const LoadChange&) const = default;
};
/// "16 at once, at most 4 starts/s", "12.5 starts/s, at most 100 in flight".
[[nodiscard]] std::string text_of(const LoadChange& change);
/// Refuses a change of nothing, or to a number out of its bounds.
[[nodiscard]] Result<void> check_change(const LoadChange& change);

/// A change of a load that was under way, and when.
struct AppliedChange {
  TimePoint at;
  LoadChange change;
};

/// A source of turns. The load generator's service carries its actions out over HTTP, or the simulation's event queue
/// does. After stop() it returns no further actions; the ends of turns in flight still have to be reported. Threads:
/// one.
class TurnSource {
 public:
  virtual ~TurnSource() = default;

  /// When to call poll() next; nothing while only a finished turn can lead to actions.
  [[nodiscard]] virtual std::optional<TimePoint> next_wakeup() const = 0;
  /// The turns that are due by `now` and do not wait for another to end.
  [[nodiscard]] virtual std::vector<StartTurn> poll(TimePoint now) = 0;
  /// A turn has ended. Returns the turns that follow at once. `reply` is only used if it succeeded.
  [[nodiscard]] virtual std::vector<StartTurn> on_turn_finished(ConversationId conversation, std::string reply,
                                                                TurnOutcome outcome, TimePoint now) = 0;
  /// Allows more conversations at once from `now` on; poll() then returns the first turns of the added ones. Errors:
  /// kUnsupported if no number of conversations drives the load, kInvalidArgument if it would be lowered.
  [[nodiscard]] virtual Result<void> raise(std::uint32_t concurrency, TimePoint now);
  /// Changes the load from `now` on. A lower number of conversations takes effect as they end; if it is higher, poll()
  /// returns their first turns. Requires: poll() was called up to `now` before. Errors: check_change()'s; kUnsupported
  /// for a setting that the load does not have, and then nothing is changed.
  [[nodiscard]] virtual Result<void> change(const LoadChange& change, TimePoint now);
  virtual void stop() = 0;
  [[nodiscard]] virtual bool stopped() const = 0;
  /// Whether the load's last turn has gone out, so that nothing more is sent, whatever ends.
  [[nodiscard]] virtual bool is_exhausted() const { return stopped(); }
  /// Turns in flight.
  [[nodiscard]] virtual std::uint32_t in_flight() const = 0;
  [[nodiscard]] virtual std::uint64_t conversations_started() const = 0;
  /// The number of starts in the schedule that the concurrency limit did not allow.
  [[nodiscard]] virtual std::uint64_t dropped_slots() const = 0;
  /// Open arrivals that waited for a place up to `now`. At a source that was stopped none wait any more.
  [[nodiscard]] virtual HeldBack held_back(TimePoint /*now*/) const { return {}; }
};

inline Result<void> TurnSource::change(const LoadChange& /*change*/, TimePoint /*now*/) {
  return fail(ErrorCode::kUnsupported, "a recorded load cannot be changed while it runs");
}

inline Result<void> TurnSource::raise(std::uint32_t /*concurrency*/, TimePoint /*now*/) {
  return fail(ErrorCode::kUnsupported, "only conversations drawn in a closed loop can be raised in number");
}

}  // namespace kvist::workload
