#include "kvist/routing/kv_shortlist.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
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
  const UsableWorkers& usable;
  const Source& source;
  std::size_t recorded;
  TimePoint now;
  std::vector<Candidate>& candidates;
  KvPolicy::Fleet fleet = {};
  CostFloor::Query floor = {};

  // The fleet for KvPolicy::fleet_of(), by position.
  [[nodiscard]] std::size_t size() const { return usable.size(); }
  [[nodiscard]] KvPolicy::Sums sums() const;
  template <class Visit>
  void for_each_cached(Visit visit) const {
    for (const std::uint32_t i : usable.others())
      if (usable[i].cached_tokens > 0) visit(i, usable[i].cached_tokens);
  }
  [[nodiscard]] KvPolicy::Room room(std::size_t i) const;

  void lay_out() const;
  void leave_out_unusable() const;
  void clean_up() const;
  void bound_roughly();
  void bound_closely(Bound& bound) const;
  const Candidate& forecast(std::uint32_t worker);
  [[nodiscard]] std::span<Bound> least_bounds(std::size_t wanted) const;
  void forecast_least_bounds();
  void forecast_below();
  void note_cost(double cost);
  void forecast_tied();
  void forecast_idle();
  [[nodiscard]] bool may_tie(std::uint32_t worker, const Candidate& least, double most) const;
  [[nodiscard]] KvPolicy::Preference preference(std::uint32_t worker) const;
  [[nodiscard]] KvShortlist::Tied tied(std::uint32_t worker) const;
  [[nodiscard]] bool forecast_preferred(const Candidate& least, double most);
  [[nodiscard]] const Candidate& cheapest() const;
};

KvShortlist::KvShortlist(const Forecaster& forecaster, CostFloor floor, std::size_t workers)
    : forecaster_(&forecaster), floor_(std::move(floor)) {
  const std::size_t size = CostLanes::padded(workers);
  for (std::vector<float>* lanes : {&request_.uncached, &request_.pairs, &request_.paid, &costs_}) lanes->resize(size);
  std::ranges::fill(request_.paid, 1.0F);
  exact_.assign(workers, kNone);
}

KvPolicy::Sums KvShortlist::Choice::sums() const {
  if (usable.is_whole_fleet()) return list.floor_.sums();
  KvPolicy::Sums sums;
  for (const UsableWorker& one : usable.all()) sums.add(list.floor_.waiting(one.worker), list.floor_.error(one.worker));
  return sums;
}

KvPolicy::Room KvShortlist::Choice::room(std::size_t i) const {
  const Candidate candidate = source.candidate(usable[i]);
  const Forecaster::Room room =
      list.forecaster_->room(candidate.worker, candidate.limits, source.query(candidate), now);
  return {.has_slot = room.has_slot, .scarce = room.scarce};
}

// Most of a large fleet have cached nothing of a prompt and read it in the same tokens.
void KvShortlist::Choice::lay_out() const {
  CostLanes::Request& request = list.request_;
  const PrefillWork whole{.uncached = static_cast<double>(usable.prompt_tokens())};
  CostLanes::fill(request.uncached, static_cast<float>(whole.uncached));
  CostLanes::fill(request.pairs, static_cast<float>(whole.pairs()));
  for (const std::uint32_t i : usable.others()) {
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
  const std::size_t workers = list.exact_.size();
  std::fill(list.costs_.begin() + static_cast<std::ptrdiff_t>(workers), list.costs_.end(), kNever);
  if (usable.is_whole_fleet()) return;
  for (std::uint32_t i = 0; i < workers; ++i)
    if (!usable.contains(WorkerId(i))) list.costs_[i] = kNever;
}

void KvShortlist::Choice::clean_up() const {
  for (const std::uint32_t i : usable.others()) list.request_.paid[usable[i].worker.value()] = 1;
  for (const Candidate& candidate : candidates) list.exact_[candidate.worker.value()] = kNone;
}

void KvShortlist::Choice::bound_roughly() {
  floor = list.floor_.query(query.prompt_tokens, fleet, now);
  lay_out();
  list.floor_.bound_all(floor, usable.least_prompt_tokens(), list.request_, list.costs_);
  leave_out_unusable();
}

void KvShortlist::Choice::bound_closely(Bound& bound) const {
  const UsableWorker& one = usable.at(WorkerId(bound.worker));
  const double cost = list.floor_.bound(one, source.displaced_blocks(one), floor) + source.affinity_ms(one.worker);
  bound.cost = std::max(bound.cost, cost * (1 - kRoundingShare) - kRoundingMs);
  bound.close = true;
}

const Candidate& KvShortlist::Choice::forecast(std::uint32_t worker) {
  list.exact_[worker] = static_cast<std::uint32_t>(candidates.size());
  Candidate& candidate = candidates.emplace_back(source.candidate(usable.at(WorkerId(worker))));
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

// The least rough bounds, so many if there are as many, in any order.
std::span<KvShortlist::Bound> KvShortlist::Choice::least_bounds(std::size_t wanted) const {
  std::vector<Bound>& least = list.bounds_;
  least.clear();
  CostLanes::for_each_up_to(list.costs_, CostLanes::at_least_so_many(list.costs_, wanted), [&](std::uint32_t worker) {
    least.push_back({.cost = list.costs_[worker], .worker = worker});
  });
  const auto end = least.begin() + static_cast<std::ptrdiff_t>(std::min(wanted, least.size()));
  std::ranges::nth_element(least, end, {}, &Bound::cost);
  return {least.begin(), end};
}

// Forecasts as many as the record keeps: those of the least bounds.
void KvShortlist::Choice::forecast_least_bounds() {
  const std::size_t wanted = std::min(usable.size(), std::max<std::size_t>(1, recorded));
  list.cheapest_.clear();
  for (const Bound& bound : least_bounds(wanted)) note_cost(forecast(bound.worker).cost);
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
  return {-static_cast<std::int64_t>(usable.at(id).cached_tokens),
          list.floor_.waiting(id),
          -list.forecaster_->since_routed_ms(id, now),
          list.forecaster_->mean_requests(id, now),
          list.floor_.requests(id),
          id};
}

// The first two parts of the same.
KvShortlist::Tied KvShortlist::Choice::tied(std::uint32_t worker) const {
  const WorkerId id(worker);
  if (list.exact_[worker] == kNone)
    return {.cached = -static_cast<std::int64_t>(usable.at(id).cached_tokens),
            .waiting = list.floor_.waiting(id),
            .worker = worker};
  const KvPolicy::Preference exact = preference(worker);
  return {.cached = std::get<0>(exact), .waiting = std::get<1>(exact), .worker = worker};
}

// Of all that may tie those with the best first parts are compared, in the order of their preferences, until one of
// them ties by its exact forecast: it wins. If none does, the next best first parts decide. So a closer bound and a
// forecast is made of few.
void KvShortlist::Choice::forecast_tied() {
  const Candidate least = cheapest();
  const double most = KvPolicy::most_in_tie(least);
  std::vector<Tied>& all = list.tied_;
  all.clear();
  list.floor_.for_each_possible(list.costs_, most, least.load.requests,
                                [&](WorkerId worker) { all.push_back(tied(worker.value())); });
  bool found = false;
  while (!found && !all.empty()) found = forecast_preferred(least, most);
}

// Whether one of those with the best first parts ties. If not, they are left out. Requires: some are left.
bool KvShortlist::Choice::forecast_preferred(const Candidate& least, double most) {
  const auto best = std::ranges::min_element(list.tied_, {}, &Tied::first)->first();
  auto& preferred = list.preferred_;  // a heap, the most preferred in front
  preferred.clear();
  for (const Tied& one : list.tied_)
    if (one.first() == best) preferred.emplace_back(preference(one.worker), one.worker);
  std::ranges::make_heap(preferred, std::ranges::greater());
  while (!preferred.empty()) {
    std::ranges::pop_heap(preferred, std::ranges::greater());
    const auto [was, worker] = preferred.back();
    preferred.pop_back();
    if (!may_tie(worker, least, most)) continue;
    if (list.exact_[worker] != kNone) return true;
    if (KvPolicy::possible_cost(forecast(worker), least) > most) continue;
    const KvPolicy::Preference exact = preference(worker);
    if (exact == was) return true;
    Tied& known = *std::ranges::find(list.tied_, worker, &Tied::worker);
    known = tied(worker);
    if (known.first() != best) continue;  // its turn comes later
    preferred.emplace_back(exact, worker);
    std::ranges::push_heap(preferred, std::ranges::greater());
  }
  std::erase_if(list.tied_, [&](const Tied& one) { return one.first() == best; });
  return false;
}

// The record says why a worker without requests was passed over. Where many have none they are mostly alike: then one
// gets a closer bound, and a forecast. From here on the rough bounds are those of idle workers only.
void KvShortlist::Choice::forecast_idle() {
  constexpr std::size_t kMostCloser = 4;
  constexpr double kAlike = 1.01;
  const auto is_idle = [](const Candidate& candidate) { return candidate.load.requests == 0; };
  if (recorded <= 1 || list.floor_.idle() == 0 || std::ranges::any_of(candidates, is_idle)) return;
  list.floor_.keep_idle(list.costs_);
  const std::span<Bound> least = least_bounds(kMostCloser);
  std::ranges::sort(least, {}, &Bound::cost);
  const Bound* best = nullptr;
  for (Bound& next : least) {
    if (best != nullptr && best->cost <= kAlike * next.cost) break;
    bound_closely(next);
    if (best == nullptr || next.cost < best->cost) best = &next;
  }
  if (best != nullptr) (void)forecast(best->worker);
}

std::size_t KvShortlist::choose(KvPolicy& policy, const PolicyQuery& query, const UsableWorkers& usable,
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
  if (policy.would_fall_back(choice.fleet)) {
    for (const UsableWorker& one : usable.all()) (void)choice.forecast(one.worker.value());
  } else {
    choice.bound_roughly();
    choice.forecast_least_bounds();
    choice.forecast_below();
    choice.forecast_tied();
    choice.forecast_idle();
    std::ranges::sort(candidates, {}, &Candidate::worker);
  }
  choice.clean_up();
  return policy.choose_by_cost(choice.fleet, candidates);
}

}  // namespace kvist::routing
