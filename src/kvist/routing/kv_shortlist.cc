#include "kvist/routing/kv_shortlist.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace kvist::routing {
namespace {

// A value in single precision that is not below `cost`, and finite.
float up_to(double cost) {
  constexpr float kMost = std::numeric_limits<float>::max();
  return std::nextafter(static_cast<float>(cost), kMost);
}

}  // namespace

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
  CostFloor::Query floor = {};
  std::uint32_t tokens = 0;        // of the prompt at most workers
  std::uint32_t least_tokens = 0;  // at any

  // The fleet for KvPolicy::fleet_of(), by position.
  [[nodiscard]] std::size_t size() const { return usable.size(); }
  [[nodiscard]] KvPolicy::Sums sums() const;
  template <class Visit>
  void for_each_cached(Visit visit) const {
    for (const std::uint32_t i : list.others_)
      if (usable[i].cached_tokens > 0) visit(i, usable[i].cached_tokens);
  }
  [[nodiscard]] KvPolicy::Room room(std::size_t i) const;

  [[nodiscard]] bool all_usable() const { return usable.size() == list.workers_; }
  [[nodiscard]] const UsableWorker& at(std::uint32_t worker) const;
  void find_others();
  void lay_out() const;
  void leave_out_unusable() const;
  void clean_up() const;
  void bound_roughly();
  void bound_closely(Bound& bound) const;
  const Candidate& forecast(std::uint32_t worker);
  void forecast_least_bounds();
  void forecast_below();
  void note_cost(double cost);
  void forecast_tied();
  [[nodiscard]] bool may_tie(std::uint32_t worker, const Candidate& least, double most) const;
  [[nodiscard]] KvPolicy::Preference preference(std::uint32_t worker) const;
  [[nodiscard]] const Candidate& cheapest() const;
};

KvShortlist::KvShortlist(const Forecaster& forecaster, CostFloor floor, std::size_t workers)
    : forecaster_(&forecaster), floor_(std::move(floor)), workers_(workers) {
  const std::size_t size = CostLanes::padded(workers);
  for (std::vector<float>* lanes : {&request_.uncached, &request_.pairs, &request_.paid, &costs_}) lanes->resize(size);
  std::ranges::fill(request_.paid, 1.0F);
  exact_.assign(workers, kNone);
}

KvPolicy::Sums KvShortlist::Choice::sums() const {
  if (all_usable()) return list.floor_.sums();
  KvPolicy::Sums sums;
  for (const UsableWorker& one : usable) sums.add(list.floor_.waiting(one.worker), list.floor_.error(one.worker));
  return sums;
}

KvPolicy::Room KvShortlist::Choice::room(std::size_t i) const {
  const Candidate candidate = source.candidate(usable[i]);
  const Forecaster::Room room =
      list.forecaster_->room(candidate.worker, candidate.limits, source.query(candidate), now);
  return {.has_slot = room.has_slot, .scarce = room.scarce};
}

const UsableWorker& KvShortlist::Choice::at(std::uint32_t worker) const {
  if (all_usable()) return usable[worker];
  return *std::ranges::lower_bound(usable, WorkerId(worker), {}, &UsableWorker::worker);
}

// Most of a large fleet have cached nothing of a prompt and read it in the same tokens.
void KvShortlist::Choice::find_others() {
  tokens = least_tokens = usable.front().prompt_tokens;
  list.others_.clear();
  for (std::uint32_t i = 0; i < usable.size(); ++i) {
    const UsableWorker& one = usable[i];
    if (((one.prompt_tokens ^ tokens) | one.cached_tokens | one.replicate_tokens) == 0) continue;
    list.others_.push_back(i);
    least_tokens = std::min(least_tokens, one.prompt_tokens);
  }
}

void KvShortlist::Choice::lay_out() const {
  CostLanes::Request& request = list.request_;
  const PrefillWork whole{.uncached = static_cast<double>(tokens)};
  std::ranges::fill(request.uncached, static_cast<float>(whole.uncached));
  std::ranges::fill(request.pairs, static_cast<float>(whole.pairs()));
  for (const std::uint32_t i : list.others_) {
    const UsableWorker& one = usable[i];
    const PrefillWork work{.uncached = static_cast<double>(one.prompt_tokens - one.cached_tokens),
                           .cached = static_cast<double>(one.cached_tokens)};
    const std::size_t worker = one.worker.value();
    request.uncached[worker] = static_cast<float>(work.uncached);
    request.pairs[worker] = static_cast<float>(work.pairs());
    request.paid[worker] = static_cast<float>(one.paid(query.prompt_tokens));
  }
}

void KvShortlist::Choice::leave_out_unusable() const {
  constexpr float kNever = std::numeric_limits<float>::infinity();
  std::size_t next = 0;
  if (all_usable()) next = list.workers_;
  for (std::size_t i = next; i < list.costs_.size(); ++i) {
    if (next < usable.size() && usable[next].worker.value() == i)
      ++next;
    else
      list.costs_[i] = kNever;
  }
}

void KvShortlist::Choice::clean_up() const {
  for (const std::uint32_t i : list.others_) list.request_.paid[usable[i].worker.value()] = 1;
  for (const Candidate& candidate : candidates) list.exact_[candidate.worker.value()] = kNone;
}

void KvShortlist::Choice::bound_roughly() {
  floor = list.floor_.query(query.prompt_tokens, fleet, now);
  lay_out();
  list.floor_.bound_all(floor, least_tokens, list.request_, list.costs_);
  leave_out_unusable();
}

void KvShortlist::Choice::bound_closely(Bound& bound) const {
  const UsableWorker& one = at(bound.worker);
  const double cost = list.floor_.bound(one, source.displaced_blocks(one), floor) + source.affinity_ms(one.worker);
  bound.cost = std::max(bound.cost, cost * (1 - kRoundingShare) - kRoundingMs);
  bound.close = true;
}

const Candidate& KvShortlist::Choice::forecast(std::uint32_t worker) {
  list.exact_[worker] = static_cast<std::uint32_t>(candidates.size());
  Candidate& candidate = candidates.emplace_back(source.candidate(at(worker)));
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
  float most = std::numeric_limits<float>::infinity();
  least.assign(wanted, {.cost = most, .worker = kNone});
  CostLanes::for_each_up_to(list.costs_, most, [&](std::uint32_t worker) {
    if (list.costs_[worker] >= most) return;
    std::ranges::pop_heap(least, {}, &Bound::cost);
    least.back() = {.cost = list.costs_[worker], .worker = worker};
    std::ranges::push_heap(least, {}, &Bound::cost);
    most = static_cast<float>(least.front().cost);
  });
  list.cheapest_.clear();
  for (const Bound& bound : least)
    if (bound.worker != kNone) note_cost(forecast(bound.worker).cost);
}

// Makes candidates in the order of bounds, until the next bound is above the costs of as many as the record keeps.
void KvShortlist::Choice::forecast_below() {
  std::vector<Bound>& bounds = list.bounds_;
  bounds.clear();
  CostLanes::for_each_up_to(list.costs_, up_to(list.cheapest_.front()), [&](std::uint32_t worker) {
    if (list.exact_[worker] == kNone) bounds.push_back({.cost = list.costs_[worker], .worker = worker});
  });
  std::ranges::make_heap(bounds, std::ranges::greater(), &Bound::cost);
  while (!bounds.empty() && bounds.front().cost <= list.cheapest_.front()) {
    std::ranges::pop_heap(bounds, std::ranges::greater(), &Bound::cost);
    Bound& next = bounds.back();
    if (next.close) {
      note_cost(forecast(next.worker).cost);
      bounds.pop_back();
    } else {
      bound_closely(next);
      std::ranges::push_heap(bounds, std::ranges::greater(), &Bound::cost);
    }
  }
}

const Candidate& KvShortlist::Choice::cheapest() const {
  return *std::ranges::min_element(
      candidates, {}, [](const Candidate& candidate) { return std::pair(candidate.cost, candidate.worker); });
}

// Whether the worker, which may tie by its rough bound, may do so by its closer one, or does by its cost.
bool KvShortlist::Choice::may_tie(std::uint32_t worker, const Candidate& least, double most) const {
  if (list.exact_[worker] != kNone) return KvPolicy::possible_cost(candidates[list.exact_[worker]], least) <= most;
  Bound bound{.cost = list.costs_[worker], .worker = worker};
  bound_closely(bound);
  const WorkerId id(worker);
  return KvPolicy::possible_cost(bound.cost, list.floor_.requests(id) < least.load.requests, list.floor_.known(id)) <=
         most;
}

// A worker without an exact forecast counts as not scarce, which can only make it win more often.
KvPolicy::Preference KvShortlist::Choice::preference(std::uint32_t worker) const {
  if (list.exact_[worker] != kNone) return KvPolicy::preference(candidates[list.exact_[worker]], fleet.others);
  const WorkerId id(worker);
  return {-static_cast<std::int64_t>(at(worker).cached_tokens),
          list.floor_.waiting(id),
          -list.forecaster_->since_routed_ms(id, now),
          list.forecaster_->mean_requests(id, now),
          list.floor_.requests(id),
          id};
}

// The worker that would win the tie is forecast first. If it is still within the tie, it wins.
void KvShortlist::Choice::forecast_tied() {
  const Candidate least = cheapest();
  const double most = KvPolicy::most_in_tie(least);
  std::vector<Tied>& tied = list.tied_;
  tied.clear();
  list.floor_.for_each_possible(list.costs_, most, least.load.requests, [&](WorkerId worker) {
    if (may_tie(worker.value(), least, most))
      tied.push_back({.preference = preference(worker.value()), .worker = worker.value()});
  });
  while (true) {
    Tied& first = *std::ranges::min_element(tied, {}, &Tied::preference);
    if (list.exact_[first.worker] != kNone) return;
    if (KvPolicy::possible_cost(forecast(first.worker), least) <= most) {
      first.preference = preference(first.worker);
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
  choice.find_others();
  choice.fleet = KvPolicy::fleet_of(query, choice);
  if (policy.would_fall_back(choice.fleet)) {
    for (const UsableWorker& one : usable) (void)choice.forecast(one.worker.value());
  } else {
    choice.bound_roughly();
    choice.forecast_least_bounds();
    choice.forecast_below();
    choice.forecast_tied();
    std::ranges::sort(candidates, {}, &Candidate::worker);
  }
  choice.clean_up();
  return policy.choose_by_cost(choice.fleet, candidates);
}

}  // namespace kvist::routing
