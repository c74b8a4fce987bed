#include "kvist/routing/kv_shortlist.h"

#include <algorithm>
#include <utility>

namespace kvist::routing {

/// One call of choose().
struct KvShortlist::Choice {
  KvShortlist& list;
  const PolicyQuery& query;
  std::span<const UsableWorker> usable;
  const Source& source;
  std::size_t recorded;
  TimePoint now;
  std::vector<Candidate>& candidates;
  KvPolicy::Fleet fleet = {};

  // The fleet for KvPolicy::fleet_of().
  [[nodiscard]] std::size_t size() const { return usable.size(); }
  [[nodiscard]] std::uint32_t waiting(std::size_t i) const { return list.floor_.waiting(usable[i].worker); }
  [[nodiscard]] double error(std::size_t i) const { return list.floor_.error(usable[i].worker); }
  [[nodiscard]] std::uint32_t cached_tokens(std::size_t i) const { return usable[i].cached_tokens; }
  [[nodiscard]] KvPolicy::Room room(std::size_t i) const;

  void bound_costs();
  const Candidate& forecast(std::uint32_t i);
  void forecast_least_bounds();
  void forecast_below();
  void note_cost(double cost);
  void forecast_tied();
  [[nodiscard]] bool may_tie(std::uint32_t i, const Candidate& least, double most) const;
  [[nodiscard]] KvPolicy::Preference preference(std::uint32_t i) const;
  [[nodiscard]] const Candidate& cheapest() const;
};

KvPolicy::Room KvShortlist::Choice::room(std::size_t i) const {
  const Candidate candidate = source.candidate(usable[i]);
  const Forecaster::Room room =
      list.forecaster_->room(candidate.worker, candidate.limits, source.query(candidate), now);
  return {.has_slot = room.has_slot, .scarce = room.scarce};
}

void KvShortlist::Choice::bound_costs() {
  list.exact_.assign(usable.size(), kNone);
  list.costs_.resize(usable.size());
  list.floor_.bound(usable, query.prompt_tokens, fleet, now, list.costs_);
  for (double& cost : list.costs_) cost = std::max(0.0, cost * (1 - kRoundingShare) - kRoundingMs);
}

const Candidate& KvShortlist::Choice::forecast(std::uint32_t i) {
  list.exact_[i] = static_cast<std::uint32_t>(candidates.size());
  Candidate& candidate = candidates.emplace_back(source.candidate(usable[i]));
  candidate.forecast = list.forecaster_->forecast(candidate.worker, candidate.limits, source.query(candidate), now);
  candidate.cost = KvPolicy::cost(candidate, query, fleet);
  return candidate;
}

// Keeps the least costs, as many as the record keeps, as a heap with the highest of them in front.
void KvShortlist::Choice::note_cost(double cost) {
  std::vector<double>& costs = list.cheapest_;
  costs.push_back(cost);
  std::ranges::push_heap(costs);
  if (costs.size() <= std::max<std::size_t>(1, recorded)) return;
  std::ranges::pop_heap(costs);
  costs.pop_back();
}

// Keeps as many bounds as the record keeps candidates: the least ones.
void KvShortlist::Choice::forecast_least_bounds() {
  const std::size_t wanted = std::min(usable.size(), std::max<std::size_t>(1, recorded));
  std::vector<Bound>& least = list.bounds_;  // a heap, the highest of them in front
  least.clear();
  for (std::uint32_t i = 0; i < wanted; ++i) least.push_back({.cost = list.costs_[i], .position = i});
  std::ranges::make_heap(least);
  for (auto i = static_cast<std::uint32_t>(wanted); i < usable.size(); ++i) {
    if (list.costs_[i] >= least.front().cost) continue;
    std::ranges::pop_heap(least);
    least.back() = {.cost = list.costs_[i], .position = i};
    std::ranges::push_heap(least);
  }
  list.cheapest_.clear();
  for (const Bound& bound : least) note_cost(forecast(bound.position).cost);
}

// Makes candidates in the order of bounds, until the next bound is above the costs of as many as the record keeps.
void KvShortlist::Choice::forecast_below() {
  std::vector<Bound>& bounds = list.bounds_;
  bounds.clear();
  for (std::uint32_t i = 0; i < usable.size(); ++i)
    if (list.costs_[i] <= list.cheapest_.front() && list.exact_[i] == kNone)
      bounds.push_back({.cost = list.costs_[i], .position = i});
  std::ranges::make_heap(bounds, std::ranges::greater());
  while (!bounds.empty() && bounds.front().cost <= list.cheapest_.front()) {
    note_cost(forecast(bounds.front().position).cost);
    std::ranges::pop_heap(bounds, std::ranges::greater());
    bounds.pop_back();
  }
}

const Candidate& KvShortlist::Choice::cheapest() const {
  return *std::ranges::min_element(
      candidates, {}, [](const Candidate& candidate) { return std::pair(candidate.cost, candidate.worker); });
}

bool KvShortlist::Choice::may_tie(std::uint32_t i, const Candidate& least, double most) const {
  if (list.exact_[i] != kNone) return KvPolicy::possible_cost(candidates[list.exact_[i]], least) <= most;
  const double cost = list.costs_[i];
  if (KvPolicy::possible_cost(cost, true, 0) > most) return false;
  const WorkerId worker = usable[i].worker;
  return KvPolicy::possible_cost(cost, list.floor_.requests(worker) < least.load.requests, list.floor_.known(worker)) <=
         most;
}

// A worker without an exact forecast counts as not scarce, which can only make it win more often.
KvPolicy::Preference KvShortlist::Choice::preference(std::uint32_t i) const {
  if (list.exact_[i] != kNone) return KvPolicy::preference(candidates[list.exact_[i]], fleet.others);
  const WorkerId worker = usable[i].worker;
  return {-static_cast<std::int64_t>(usable[i].cached_tokens),
          list.floor_.waiting(worker),
          -list.forecaster_->since_routed_ms(worker, now),
          list.forecaster_->mean_requests(worker, now),
          list.floor_.requests(worker),
          worker};
}

// The worker that would win the tie is forecast first. If it is still within the tie, it wins.
void KvShortlist::Choice::forecast_tied() {
  const Candidate least = cheapest();
  const double most = KvPolicy::most_in_tie(least);
  std::vector<Tied>& tied = list.tied_;
  tied.clear();
  for (std::uint32_t i = 0; i < usable.size(); ++i)
    if (may_tie(i, least, most)) tied.push_back({.preference = preference(i), .position = i});
  while (true) {
    Tied& first = *std::ranges::min_element(tied, {}, &Tied::preference);
    if (list.exact_[first.position] != kNone) return;
    if (KvPolicy::possible_cost(forecast(first.position), least) <= most) {
      first.preference = preference(first.position);
      continue;
    }
    first = tied.back();
    tied.pop_back();
  }
}

std::size_t KvShortlist::choose(KvPolicy& policy, const PolicyQuery& query, std::span<const UsableWorker> usable,
                                const Source& source, std::size_t recorded, TimePoint now,
                                std::vector<Candidate>& candidates) {
  Choice choice{.list = *this,
                .query = query,
                .usable = usable,
                .source = source,
                .recorded = recorded,
                .now = now,
                .candidates = candidates};
  candidates.clear();
  floor_.refresh(now);
  choice.fleet = KvPolicy::fleet_of(query, choice);
  choice.bound_costs();
  if (policy.would_fall_back(choice.fleet)) {
    for (std::uint32_t i = 0; i < usable.size(); ++i) (void)choice.forecast(i);
  } else {
    choice.forecast_least_bounds();
    choice.forecast_below();
    choice.forecast_tied();
    std::ranges::sort(candidates, {}, &Candidate::worker);
  }
  return policy.choose_by_cost(choice.fleet, candidates);
}

}  // namespace kvist::routing
