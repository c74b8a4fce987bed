// The requests that wait at the gateway, and whose turn it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/kinetic_tournament.h"
#include "kvist/dispatch/request_profile.h"

namespace kvist::dispatch {

/// A request that is held, counted up from 1.
using HoldId = Id<struct HoldTag, std::uint64_t>;

/// A request that waits at the gateway.
struct HeldRequest {
  RequestProfile profile;
  TimePoint since;
  double service_ms = 0;                ///< HoldCheck::service_ms(), when it was last tried
  TimePoint latest = TimePoint::max();  ///< from then on nothing is gained by beginning it
  KineticTournament::Seat seat = 0;     ///< of the queue
};

/// Orders by (kEven + waited) / service: of two that wait equally long the one that takes less comes first, which makes
/// the sum of all waits least (Smith's rule), and who has waited long passes those who take less. This is the
/// generalized c-mu rule (Van Mieghem, 1995) for a cost of waiting that grows from kEven on, and never starves anyone.
/// A conversation whose history is cached takes a tenth of the time of one that has to be computed anew, so it keeps
/// its worker until it ends, unless another has waited for ten times kEven. Each step of priority counts for a factor
/// of two. The order changes with time, and not for all alike; that no look goes over all that are held is the
/// tournament's doing. Threads: one.
class HoldQueue {
 public:
  static constexpr Duration kEven = std::chrono::seconds(30);
  /// How many requests are looked at when there may be room: those whose turn it is, and some of the others by turns,
  /// because what the first ones wait for may be more than what others need.
  static constexpr std::size_t kFirst = 12;
  static constexpr std::size_t kByTurns = 4;

  /// `since`: its arrival, which is not before that of the one before.
  HoldId add(RequestProfile profile, double service_ms, TimePoint since, TimePoint latest = TimePoint::max());
  /// Requires: the request is held, as for the next one.
  [[nodiscard]] const HeldRequest& at(HoldId id) const { return held_.at(id); }
  void update(HoldId id, double service_ms, TimePoint latest);
  /// Does nothing if the request is not held any more.
  bool erase(HoldId id);

  [[nodiscard]] bool contains(HoldId id) const { return held_.contains(id); }
  [[nodiscard]] std::size_t size() const { return held_.size(); }
  [[nodiscard]] bool empty() const { return held_.empty(); }
  /// The one that came first. Requires: !empty()
  [[nodiscard]] HoldId oldest() const { return held_.begin()->first; }
  /// Those to be looked at now, the first one first. Requires: `now` never decreases.
  [[nodiscard]] std::vector<HoldId> next(TimePoint now);
  /// One whose latest instant has come.
  [[nodiscard]] std::optional<HoldId> late(TimePoint now) const;
  /// Of those that waited for `most` or longer the one that waited longest, each step of priority a factor of two.
  [[nodiscard]] std::optional<HoldId> overdue(Duration most, TimePoint now) const;

 private:
  /// As in WaitAdmission: priorities beyond count like this one.
  static constexpr std::int32_t kMostPriority = 6;
  [[nodiscard]] static std::int32_t priority_of(const HeldRequest& held);
  [[nodiscard]] std::set<HoldId>& same_priority(const HeldRequest& held);
  /// Its height is the request's urgency.
  [[nodiscard]] static KineticTournament::Line line_of(HoldId id, const HeldRequest& held);

  std::map<HoldId, HeldRequest> held_;  // ids ascend with time
  std::set<std::pair<TimePoint, HoldId>> by_latest_;
  std::array<std::set<HoldId>, 2 * kMostPriority + 1> by_priority_;
  KineticTournament order_;
  HoldId last_{0};
  HoldId turn_{0};  // the last one that was looked at by turns
};

}  // namespace kvist::dispatch
