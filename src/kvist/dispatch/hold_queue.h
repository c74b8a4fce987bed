// The requests that wait at the gateway, and whose turn it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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
  double service_ms = 0;  ///< HoldCheck::service_ms(), when it was last tried
  KineticTournament::Seat seat = 0;
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

  /// `since`: its arrival.
  HoldId add(RequestProfile profile, double service_ms, TimePoint since);
  /// Requires: the request is held, as for the next one.
  [[nodiscard]] const HeldRequest& at(HoldId id) const { return held_.at(id); }
  void set_service(HoldId id, double service_ms);
  /// Does nothing if the request is not held any more.
  bool erase(HoldId id);

  [[nodiscard]] bool contains(HoldId id) const { return held_.contains(id); }
  [[nodiscard]] std::size_t size() const { return held_.size(); }
  [[nodiscard]] bool empty() const { return held_.empty(); }
  /// The one that came first. Requires: !empty()
  [[nodiscard]] HoldId oldest() const { return held_.begin()->first; }
  /// Those to be looked at now, the first one first. Requires: `now` never decreases.
  [[nodiscard]] std::vector<HoldId> next(TimePoint now);

 private:
  std::map<HoldId, HeldRequest> held_;  // ids ascend with time
  KineticTournament order_;
  HoldId last_{0};
  HoldId turn_{0};  // the last one that was looked at by turns
};

}  // namespace kvist::dispatch
