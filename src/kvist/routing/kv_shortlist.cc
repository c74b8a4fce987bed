#include "kvist/routing/kv_shortlist.h"

#include <algorithm>

namespace kvist::routing {

/// One call of choose().
struct KvShortlist::Choice {
  KvShortlist& list;
  const PolicyQuery& query;
  std::vector<Candidate>& candidates;
  const QueryOf& query_of;
  TimePoint now;
  KvPolicy::Fleet fleet = {};
  std::size_t cheapest = 0;

  void assume_least();
  void bound_costs();
  void forecast(std::size_t i);
  void forecast_cheapest();
  void forecast_tied();
  void leave_out_others();
};

void KvShortlist::Choice::assume_least() {
  list.floor_.refresh(now);
  for (Candidate& candidate : candidates)
    candidate.forecast = list.floor_.least(candidate.worker, query_of(candidate), now);
  fleet = KvPolicy::fleet_of(query, candidates, [&](const Candidate& candidate) {
    const Forecaster::Room room = list.forecaster_->room(candidate.worker, candidate.limits, query_of(candidate), now);
    return KvPolicy::Room{.has_slot = room.has_slot, .scarce = room.scarce};
  });
}

void KvShortlist::Choice::bound_costs() {
  list.exact_.assign(candidates.size(), 0);
  list.bounds_.clear();
  for (std::uint32_t i = 0; i < candidates.size(); ++i) {
    Candidate& candidate = candidates[i];
    const double cost = KvPolicy::cost(candidate, query, fleet);
    candidate.cost = std::max(0.0, cost * (1 - kRoundingShare) - kRoundingMs);
    list.bounds_.push_back({.cost = candidate.cost, .position = i});
  }
}

void KvShortlist::Choice::forecast(std::size_t i) {
  list.exact_[i] = 1;
  Candidate& candidate = candidates[i];
  candidate.forecast = list.forecaster_->forecast(candidate.worker, candidate.limits, query_of(candidate), now);
  candidate.cost = KvPolicy::cost(candidate, query, fleet);
}

// In the order of bounds, until the next one is above the costs of as many as the record keeps.
void KvShortlist::Choice::forecast_cheapest() {
  const std::size_t wanted = std::max<std::size_t>(1, list.recorded_);
  std::vector<double>& costs = list.cheapest_;  // a heap of the least ones
  costs.clear();
  std::vector<Bound>& bounds = list.bounds_;
  std::ranges::make_heap(bounds, std::ranges::greater(), &Bound::cost);
  cheapest = bounds.front().position;
  while (!bounds.empty() && (costs.size() < wanted || bounds.front().cost <= costs.front())) {
    const std::uint32_t next = bounds.front().position;
    std::ranges::pop_heap(bounds, std::ranges::greater(), &Bound::cost);
    bounds.pop_back();
    forecast(next);
    const double cost = candidates[next].cost;
    if (cost < candidates[cheapest].cost || (cost == candidates[cheapest].cost && next < cheapest)) cheapest = next;
    costs.push_back(cost);
    std::ranges::push_heap(costs);
    if (costs.size() <= wanted) continue;
    std::ranges::pop_heap(costs);
    costs.pop_back();
  }
}

// The one that would win the tie is forecast first. Without an exact forecast it counts as not scarce, which only makes
// it win more. If it is still within the tie, it wins.
void KvShortlist::Choice::forecast_tied() {
  const Candidate least = candidates[cheapest];
  const double most = KvPolicy::most_in_tie(least);
  std::vector<std::uint32_t>& tied = list.tied_;
  tied.clear();
  for (std::uint32_t i = 0; i < candidates.size(); ++i) {
    if (KvPolicy::possible_cost(candidates[i], least) > most) continue;
    tied.push_back(i);
    if (list.exact_[i] == 0)
      candidates[i].forecast.mean_requests = list.forecaster_->mean_requests(candidates[i].worker, now);
  }
  const auto preference = [&](std::uint32_t i) { return KvPolicy::preference(candidates[i], fleet.others); };
  while (true) {
    const auto first = std::ranges::min_element(tied, {}, preference);
    if (list.exact_[*first] != 0) return;
    forecast(*first);
    if (KvPolicy::possible_cost(candidates[*first], least) <= most) continue;
    *first = tied.back();
    tied.pop_back();
  }
}

void KvShortlist::Choice::leave_out_others() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (list.exact_[i] != 0) candidates[kept++] = candidates[i];
  }
  candidates.resize(kept);
}

std::size_t KvShortlist::choose(KvPolicy& policy, const PolicyQuery& query, std::vector<Candidate>& candidates,
                                const QueryOf& query_of, TimePoint now) {
  Choice choice{.list = *this, .query = query, .candidates = candidates, .query_of = query_of, .now = now};
  choice.assume_least();
  choice.bound_costs();
  if (policy.would_fall_back(choice.fleet)) {
    for (std::size_t i = 0; i < candidates.size(); ++i) choice.forecast(i);
  } else {
    choice.forecast_cheapest();
    choice.forecast_tied();
    choice.leave_out_others();
  }
  return policy.choose_by_cost(choice.fleet, candidates);
}

}  // namespace kvist::routing
