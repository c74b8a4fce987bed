#include "kvist/dispatch/hold_queue.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvist::dispatch {
namespace {

constexpr double kLeastServiceMs = 1;
/// As in WaitAdmission: priorities beyond count like this one.
constexpr std::int32_t kMostPriority = 6;

/// Its height is the request's urgency.
KineticTournament::Line line_of(HoldId id, const HeldRequest& held) {
  const std::int32_t priority = std::clamp(held.profile.admission.priority, -kMostPriority, kMostPriority);
  return {.key = id.value(),
          .zero = held.since - HoldQueue::kEven,
          .ms_per_unit = std::ldexp(std::max(kLeastServiceMs, held.service_ms), priority)};
}

}  // namespace

HoldId HoldQueue::add(RequestProfile profile, double service_ms, TimePoint since) {
  last_ = HoldId(last_.value() + 1);
  HeldRequest held{.profile = std::move(profile), .since = since, .service_ms = service_ms, .seat = 0};
  held.seat = order_.add(line_of(last_, held));
  held_.emplace(last_, std::move(held));
  return last_;
}

void HoldQueue::set_service(HoldId id, double service_ms) {
  HeldRequest& held = held_.at(id);
  held.service_ms = service_ms;
  order_.set(held.seat, line_of(id, held));
}

bool HoldQueue::erase(HoldId id) {
  const auto found = held_.find(id);
  if (found == held_.end()) return false;
  order_.remove(found->second.seat);
  held_.erase(found);
  return true;
}

std::vector<HoldId> HoldQueue::next(TimePoint now) {
  std::vector<HoldId> ids;
  for (const std::uint64_t key : order_.highest(kFirst, now)) ids.emplace_back(key);
  auto at = held_.upper_bound(turn_);
  for (std::size_t i = 0; i < std::min(kByTurns, held_.size()); ++i, ++at) {
    if (at == held_.end()) at = held_.begin();
    turn_ = at->first;
    if (std::ranges::find(ids, turn_) == ids.end()) ids.push_back(turn_);
  }
  return ids;
}

}  // namespace kvist::dispatch
