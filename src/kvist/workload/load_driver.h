// The load generator without the network: decides which turn to send when, from the schedule and the replies.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/spec/workload.h"
#include "kvist/text/chat.h"
#include "kvist/workload/conversation.h"
#include "kvist/workload/dataset.h"
#include "kvist/workload/mix.h"
#include "kvist/workload/open_arrivals.h"
#include "kvist/workload/pacer.h"
#include "kvist/workload/shard.h"
#include "kvist/workload/think_time.h"
#include "kvist/workload/turn_sample.h"
#include "kvist/workload/turn_source.h"

namespace kvist::workload {

/// Refuses a workload that cannot be driven. The error names the field and what would be right.
[[nodiscard]] Result<void> check_workload(const spec::WorkloadSpec& spec);

/// The texts that the conversations of a load share, and the kinds of them. Making them takes a second per some hundred
/// megabytes, so it is done before a load's start. Threads: any.
using LoadTexts = std::shared_ptr<const Mix>;
/// Requires: a specification that check_workload() accepts, and parts that check_mix() does.
[[nodiscard]] LoadTexts make_texts(const spec::WorkloadSpec& spec, std::uint64_t run_seed,
                                   std::shared_ptr<const std::vector<ChatScript>> scripts,
                                   const std::shared_ptr<const std::vector<WorkloadPart>>& mix,
                                   const std::shared_ptr<const text::TokenProse>& tokens = nullptr);

/// Refuses a change that a load of drawn conversations, or a part of it, cannot make: LoadDriver::change() makes any
/// other. The load as a whole has those settings.
[[nodiscard]] Result<void> check_change_of(const spec::WorkloadSpec& spec, const Shard& shard,
                                           const LoadChange& change);

/// The most turns that may be in flight at once at this level of drawn conversations; each has one.
[[nodiscard]] std::uint32_t most_in_flight(const spec::WorkloadSpec& spec, std::uint32_t level);

/// Drives conversations. In a closed loop at most `level` are alive, and Pacer decides when they start. In an open loop
/// `level` start per minute, by OpenArrivals. The next turn follows a reply after its think time, which is none unless
/// it is asked for. A failed turn ends its conversation. Ids count up from 0 in the order of starts; with open arrivals
/// in the order of arrivals, including refused ones, so that an id means the same conversation however many were
/// refused. A service carries its actions out over HTTP, or the simulation's event queue does. Threads: one.
/// With ThinkTime::frees_place the level of a closed loop is that of requests: whoever has thought longest goes on as
/// soon as a place is free, before a further conversation begins. Invariants: every conversation alive has exactly one
/// turn in flight, or thinks; memory is bounded by most_in_flight() x the
/// longest history; after stop() no action comes any more.
class LoadDriver final : public TurnSource {
 public:
  /// Requires: a specification that check_workload() accepts and level >= 1.
  /// With `scripts` the conversations are these, in an order that follows from the seed, again from the beginning when
  /// all were driven. With `mix` each is of one of its parts, and `spec` says when they start.
  LoadDriver(const spec::WorkloadSpec& spec, std::uint32_t level, std::uint64_t run_seed, TimePoint start,
             std::shared_ptr<const std::vector<ChatScript>> scripts = nullptr,
             const std::shared_ptr<const std::vector<WorkloadPart>>& mix = nullptr, const ThinkTime& think_time = {});
  /// The same with texts of this seed that were made before. With a shard it drives that part of the load: its share of
  /// the level's conversations or, in an open loop, of its arrivals. Requires: no fewer conversations than parts.
  LoadDriver(const spec::WorkloadSpec& spec, std::uint32_t level, std::uint64_t run_seed, TimePoint start,
             LoadTexts texts, const ThinkTime& think_time, const Shard& shard = {});
  LoadDriver(const LoadDriver&) = delete;  // because conversations refer to its data set
  LoadDriver& operator=(const LoadDriver&) = delete;

  [[nodiscard]] std::optional<TimePoint> next_wakeup() const override;
  [[nodiscard]] std::vector<StartTurn> poll(TimePoint now) override;
  [[nodiscard]] std::vector<StartTurn> on_turn_finished(ConversationId conversation, std::string reply,
                                                        TurnOutcome outcome, TimePoint now) override;
  [[nodiscard]] Result<void> raise(std::uint32_t concurrency, TimePoint now) override;
  [[nodiscard]] Result<void> change(const LoadChange& change, TimePoint now) override;
  void stop() override;

  [[nodiscard]] bool stopped() const override { return stopped_; }
  /// Linear in the conversations alive.
  [[nodiscard]] bool is_exhausted() const override;
  [[nodiscard]] std::uint32_t in_flight() const override {
    return static_cast<std::uint32_t>(alive_.size() - thinking_.size());
  }
  [[nodiscard]] std::uint64_t conversations_started() const override { return started_; }
  [[nodiscard]] std::uint64_t dropped_slots() const override;
  [[nodiscard]] HeldBack held_back(TimePoint now) const override;

 private:
  using Starts = std::variant<Pacer, OpenArrivals>;
  [[nodiscard]] static Starts starts_of(const spec::WorkloadSpec& spec, std::uint32_t level, std::uint64_t run_seed,
                                        TimePoint start, const Shard& shard);
  /// The next turn of a conversation whose user has thought long enough; nothing: none, or it waits for a place.
  [[nodiscard]] std::optional<StartTurn> next_follow_up(TimePoint now);
  /// The first turn of the next conversation; nothing: none is due.
  [[nodiscard]] std::optional<StartTurn> next_conversation(TimePoint now);
  /// Of a closed loop in which places are of requests (ThinkTime::frees_place); null: they are of conversations.
  [[nodiscard]] const Pacer* places_of_requests() const;
  /// Whether so many conversations are alive that no further one begins. Only where a conversation can be alive without
  /// a place.
  [[nodiscard]] bool is_full_of_thinkers() const;
  /// The id of the conversation whose start was just taken.
  [[nodiscard]] std::uint64_t started_id() const;
  [[nodiscard]] StartTurn turn_of(const Conversation& conversation, TimePoint intended) const;

  const spec::WorkloadSpec spec_;
  const std::uint64_t run_seed_;
  const LoadTexts texts_;
  const Shard shard_;
  Starts starts_;
  std::uint64_t started_ = 0;
  std::map<ConversationId, Conversation> alive_;
  const ThinkTime think_time_;
  std::set<std::pair<TimePoint, ConversationId>> thinking_;  // alive without a turn in flight, by when the next is due
  bool stopped_ = false;
};

}  // namespace kvist::workload
