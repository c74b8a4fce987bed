#include "kvist/dispatch/hold_queue.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvist::dispatch {
namespace {

constexpr double kLeastServiceMs = 1;
/// As in WaitAdmission: priorities beyond count like this one.
constexpr std::int32_t kMostPriority = 6;

double urgency(const HeldRequest& held, TimePoint now) {
  const double waited_ms = to_milliseconds(HoldQueue::kEven + (now - held.since));
  const std::int32_t priority = std::clamp(held.profile.admission.priority, -kMostPriority, kMostPriority);
  return std::ldexp(waited_ms / std::max(kLeastServiceMs, held.service_ms), -priority);
}

}  // namespace

HoldId HoldQueue::add(RequestProfile profile, double service_ms, TimePoint since) {
  last_ = HoldId(last_.value() + 1);
  held_.emplace(last_, HeldRequest{.profile = std::move(profile), .since = since, .service_ms = service_ms});
  return last_;
}

std::vector<HoldId> HoldQueue::next(TimePoint now) {
  std::vector<std::pair<double, HoldId>> by_urgency;
  by_urgency.reserve(held_.size());
  for (const auto& [id, held] : held_) by_urgency.emplace_back(-urgency(held, now), id);
  const std::size_t first = std::min(kFirst, by_urgency.size());
  std::ranges::partial_sort(by_urgency, by_urgency.begin() + static_cast<std::ptrdiff_t>(first));
  std::vector<HoldId> ids;
  for (std::size_t i = 0; i < first; ++i) ids.push_back(by_urgency[i].second);
  auto at = held_.upper_bound(turn_);
  for (std::size_t i = 0; i < std::min(kByTurns, held_.size()); ++i, ++at) {
    if (at == held_.end()) at = held_.begin();
    turn_ = at->first;
    if (std::ranges::find(ids, turn_) == ids.end()) ids.push_back(turn_);
  }
  return ids;
}

}  // namespace kvist::dispatch
