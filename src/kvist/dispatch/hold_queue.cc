#include "kvist/dispatch/hold_queue.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvist::dispatch {
namespace {

constexpr double kLeastServiceMs = 1;

}  // namespace

std::int32_t HoldQueue::priority_of(const HeldRequest& held) {
  return std::clamp(held.profile.admission.priority, -kMostPriority, kMostPriority);
}

std::set<HoldId>& HoldQueue::same_priority(const HeldRequest& held) {
  const std::int32_t from_the_best = priority_of(held) + kMostPriority;
  return by_priority_[static_cast<std::size_t>(from_the_best)];
}

KineticTournament::Line HoldQueue::line_of(HoldId id, const HeldRequest& held) {
  return {.key = id.value(),
          .zero = held.since - kEven,
          .ms_per_unit = std::ldexp(std::max(kLeastServiceMs, held.service_ms), priority_of(held))};
}

HoldId HoldQueue::add(RequestProfile profile, double service_ms, TimePoint since, TimePoint latest) {
  last_ = HoldId(last_.value() + 1);
  HeldRequest held{
      .profile = std::move(profile), .since = since, .service_ms = service_ms, .latest = latest, .seat = 0};
  held.seat = order_.add(line_of(last_, held));
  by_latest_.emplace(latest, last_);
  same_priority(held).insert(last_);
  held_.emplace(last_, std::move(held));
  return last_;
}

void HoldQueue::update(HoldId id, double service_ms, TimePoint latest) {
  HeldRequest& held = held_.at(id);
  held.service_ms = service_ms;
  order_.set(held.seat, line_of(id, held));
  by_latest_.erase({std::exchange(held.latest, latest), id});
  by_latest_.emplace(latest, id);
}

bool HoldQueue::erase(HoldId id) {
  const auto found = held_.find(id);
  if (found == held_.end()) return false;
  const HeldRequest& held = found->second;
  order_.remove(held.seat);
  by_latest_.erase({held.latest, id});
  same_priority(held).erase(id);
  held_.erase(found);
  return true;
}

std::optional<HoldId> HoldQueue::late(TimePoint now) const {
  if (by_latest_.empty() || by_latest_.begin()->first > now) return std::nullopt;
  return by_latest_.begin()->second;
}

std::optional<HoldId> HoldQueue::overdue(Duration most, TimePoint now) const {
  std::optional<HoldId> found;
  double longest = 0;
  for (const std::set<HoldId>& ids : by_priority_) {
    if (ids.empty()) continue;
    const HeldRequest& first = held_.at(*ids.begin());
    const Duration waited = now - first.since;
    const double counts = std::ldexp(to_seconds(waited), -priority_of(first));
    if (waited < most || (found && counts <= longest)) continue;
    found = *ids.begin();
    longest = counts;
  }
  return found;
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
