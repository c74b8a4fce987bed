// Who decides which turn goes out when: the interface of the load, whatever drives it.
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

/// What a source wants done: send this turn now.
struct StartTurn {
  ConversationId conversation;
  std::uint32_t turn = 0;  ///< from 0
  std::vector<text::ChatMessage> messages;
  std::uint32_t max_tokens = 0;
  std::uint64_t seed = 0;
  bool ignore_eos = false;  ///< the answer runs to max_tokens: how a trace fixes its length
  TimePoint intended;       ///< when it should go out: the start's due instant, or the end of the reply before it
};

/// A source of turns. Live, the load generator's service carries its actions out over HTTP; in the simulation the event
/// queue does. One thread. After stop() no action comes any more; turns in flight still have to be reported.
class TurnSource {
 public:
  virtual ~TurnSource() = default;

  /// When to call poll() next; nothing while only a finished turn can bring work.
  [[nodiscard]] virtual std::optional<TimePoint> next_wakeup() const = 0;
  /// The turns that are due by `now` without waiting for another to end.
  [[nodiscard]] virtual std::vector<StartTurn> poll(TimePoint now) = 0;
  /// This turn is over: what follows it at once. `reply` matters only where it succeeded.
  [[nodiscard]] virtual std::vector<StartTurn> on_turn_finished(ConversationId conversation, std::string reply,
                                                                TurnOutcome outcome, TimePoint now) = 0;
  /// More conversations at once from `now` on, beside those that are running; poll() then brings their first turns.
  /// Errors: kUnsupported where no number of conversations drives the load, kInvalidArgument where it would be lowered.
  [[nodiscard]] virtual Result<void> raise(std::uint32_t concurrency, TimePoint now);
  virtual void stop() = 0;
  [[nodiscard]] virtual bool stopped() const = 0;
  /// Turns in flight.
  [[nodiscard]] virtual std::uint32_t in_flight() const = 0;
  [[nodiscard]] virtual std::uint64_t conversations_started() const = 0;
  /// Starts that the schedule wanted and the concurrency limit did not allow.
  [[nodiscard]] virtual std::uint64_t dropped_slots() const = 0;
};

inline Result<void> TurnSource::raise(std::uint32_t /*concurrency*/, TimePoint /*now*/) {
  return fail(ErrorCode::kUnsupported, "only conversations drawn in a closed loop can be raised in number");
}

}  // namespace kvist::workload
