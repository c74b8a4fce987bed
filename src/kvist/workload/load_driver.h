// The load generator without the network: decides which turn to send when, from the schedule and from what came back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/spec/workload.h"
#include "kvist/text/chat.h"
#include "kvist/workload/conversation.h"
#include "kvist/workload/dataset.h"
#include "kvist/workload/pacer.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::workload {

/// Refuses a workload that cannot be driven, with the field and what would be right.
[[nodiscard]] Result<void> check_workload(const spec::WorkloadSpec& spec);

/// What the driver wants done: send this turn now.
struct StartTurn {
  ConversationId conversation;
  std::uint32_t turn = 0;  ///< from 0
  std::vector<text::ChatMessage> messages;
  std::uint32_t max_tokens = 0;
  std::uint64_t seed = 0;
  TimePoint intended;  ///< when it should go out: the start's due instant, or the end of the reply before it
};

/// Drives conversations in a closed loop: at most `concurrency` alive, starts paced by Pacer, no think time: a reply is
/// followed at once by the next turn. A failed turn ends its conversation. Ids count up from 0 in order of start.
/// Live, a service carries its actions out over HTTP; in the simulation the event queue does. One thread.
/// Invariants: every conversation alive has exactly one turn in flight; memory is bounded by concurrency x the longest
/// history; after stop() no action comes any more.
class LoadDriver {
 public:
  /// Requires a specification that check_workload() accepts and concurrency >= 1.
  LoadDriver(const spec::WorkloadSpec& spec, std::uint32_t concurrency, std::uint64_t run_seed, TimePoint start);
  LoadDriver(const LoadDriver&) = delete;  // conversations refer to its data set
  LoadDriver& operator=(const LoadDriver&) = delete;

  /// When to call poll() next; nothing while only a finished turn can bring work.
  [[nodiscard]] std::optional<TimePoint> next_wakeup() const;
  /// The conversations that are due to start by `now`.
  [[nodiscard]] std::vector<StartTurn> poll(TimePoint now);
  /// The turn of this conversation is over: its next turn, or what may start in its place. `reply` matters only where
  /// it succeeded.
  [[nodiscard]] std::vector<StartTurn> on_turn_finished(ConversationId conversation, std::string reply,
                                                        TurnOutcome outcome, TimePoint now);
  /// From now on no turn is started. Turns in flight still have to be reported as finished.
  void stop() { stopped_ = true; }

  [[nodiscard]] bool stopped() const { return stopped_; }
  /// Turns in flight: equally, conversations alive.
  [[nodiscard]] std::uint32_t in_flight() const { return static_cast<std::uint32_t>(alive_.size()); }
  [[nodiscard]] std::uint64_t conversations_started() const { return next_id_; }
  [[nodiscard]] std::uint64_t dropped_slots() const { return pacer_.dropped_slots(); }

 private:
  [[nodiscard]] StartTurn turn_of(const Conversation& conversation, TimePoint intended) const;

  const spec::WorkloadSpec spec_;
  const std::uint64_t run_seed_;
  const Dataset dataset_;
  Pacer pacer_;
  std::uint64_t next_id_ = 0;
  std::map<ConversationId, Conversation> alive_;
  bool stopped_ = false;
};

}  // namespace kvist::workload
