#include "kvist/routing/kv_shortlist.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <tuple>
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
  void for_each_cached_above(const std::uint32_t& tokens, Visit visit) const {
    usable.for_each_cached_above(
        tokens, [&](WorkerId worker, std::uint32_t cached) { visit(usable.position(worker), cached); });
  }
  [[nodiscard]] KvPolicy::Room room(std::size_t i) const;

  [[nodiscard]] CostLanes::Request lay_out() const;
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
  [[nodiscard]] FirstParts first_parts(std::uint32_t worker) const;
  [[nodiscard]] bool is_preferred(const Preferred& one, const Preferred& other) const;
  [[nodiscard]] FirstParts find_preferred(const CostFloor::Tie& tie, const FirstParts& last) const;
  [[nodiscard]] bool forecast_preferred(const Candidate& least, double most, const FirstParts& best);
  [[nodiscard]] const Candidate& cheapest() const;
};

KvShortlist::KvShortlist(const Forecaster& forecaster, CostFloor floor, std::size_t workers)
    : forecaster_(&forecaster), floor_(std::move(floor)) {
  costs_.resize(WorkerLanes::padded(workers));
  exact_.assign(workers, kNone);
}

KvPolicy::Sums KvShortlist::Choice::sums() const {
  if (usable.is_whole_fleet()) return list.floor_.sums();
  KvPolicy::Sums sums;
  for (const UsableWorker& one : usable.all())
    sums.add(list.floor_.waiting_parts(one.worker), list.floor_.error(one.worker));
  return sums;
}

KvPolicy::Room KvShortlist::Choice::room(std::size_t i) const {
  const Candidate candidate = source.candidate(usable[i]);
  const Forecaster::Room room =
      list.forecaster_->room(candidate.worker, candidate.limits, source.query(candidate), now);
  return {.has_slot = room.has_slot, .scarce = room.scarce};
}

CostLanes::Request KvShortlist::Choice::lay_out() const {
  CostLanes::Request request{
      .longest_prompt_tokens = query.prompt_tokens, .cached = usable.cached(), .missing = usable.missing()};
  if (usable.others().empty() && usable.prompt_tokens() == query.prompt_tokens) return request;
  list.tokens_.assign(request.cached.size(), usable.prompt_tokens());
  for (const std::uint32_t i : usable.others()) list.tokens_[usable[i].worker.value()] = usable[i].prompt_tokens;
  request.tokens = list.tokens_;
  return request;
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
  for (const Candidate& candidate : candidates) list.exact_[candidate.worker.value()] = kNone;
}

void KvShortlist::Choice::bound_roughly() {
  floor = list.floor_.query(query.prompt_tokens, fleet, now);
  list.floor_.bound_all(floor, usable.least_prompt_tokens(), lay_out(), list.costs_);
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

// A worker without an exact forecast counts as not scarce, so that it is never more preferred with one.
KvShortlist::FirstParts KvShortlist::Choice::first_parts(std::uint32_t worker) const {
  const WorkerId id(worker);
  if (list.exact_[worker] == kNone)
    return {-static_cast<std::int64_t>(usable.cached()[worker]), list.floor_.waiting_parts(id)};
  const KvPolicy::Preference exact = KvPolicy::preference(candidates[list.exact_[worker]], fleet.others);
  return {std::get<0>(exact), std::get<1>(exact)};
}

// The rest of their preferences. Of many workers the last request was at different times, so little else is read.
bool KvShortlist::Choice::is_preferred(const Preferred& one, const Preferred& other) const {
  if (one.since_routed_ms != other.since_routed_ms) return one.since_routed_ms > other.since_routed_ms;
  const auto rest = [&](WorkerId id) {
    return std::tuple(list.forecaster_->mean_requests(id, now), list.floor_.requests(id), id);
  };
  return rest(WorkerId(one.worker)) < rest(WorkerId(other.worker));
}

// Of all that may tie those with the best first parts are compared, in the order of their preferences, until one of
// them ties by its exact forecast: it wins. If none does, the next best first parts decide. So a closer bound and a
// forecast is made of few.
void KvShortlist::Choice::forecast_tied() {
  const Candidate least = cheapest();
  const double most = KvPolicy::most_in_tie(least);
  FirstParts best = kBeforeAll;
  do {
    best = find_preferred({.costs = list.costs_, .most = most, .requests = least.load.requests}, best);
  } while (best != kBehindAll && !forecast_preferred(least, most, best));
}

// Those with the best first parts that come behind `last`, and these parts. A worker without an exact forecast is only
// looked at if it is as good as any before.
KvShortlist::FirstParts KvShortlist::Choice::find_preferred(const CostFloor::Tie& tie, const FirstParts& last) const {
  list.preferred_.clear();
  FirstParts best = kBehindAll;
  CostFloor::Rank rank;
  list.floor_.for_each_in(tie, usable.cached(), rank, [&](WorkerId id) {
    const FirstParts first = first_parts(id.value());
    if (first <= last || first > best) return;
    if (first < best) list.preferred_.clear();
    best = first;
    rank = {.cached = static_cast<std::uint32_t>(-best.first), .waiting = static_cast<float>(best.second)};
    list.preferred_.push_back({.since_routed_ms = list.forecaster_->since_routed_ms(id, now), .worker = id.value()});
  });
  return best;
}

// Whether one of those with the best first parts ties.
bool KvShortlist::Choice::forecast_preferred(const Candidate& least, double most, const FirstParts& best) {
  std::vector<Preferred>& preferred = list.preferred_;
  const auto is_behind = [&](const Preferred& one, const Preferred& other) { return is_preferred(other, one); };
  std::ranges::make_heap(preferred, is_behind);
  for (; !preferred.empty(); preferred.pop_back()) {
    std::ranges::pop_heap(preferred, is_behind);
    const std::uint32_t worker = preferred.back().worker;
    if (!may_tie(worker, least, most)) continue;
    if (list.exact_[worker] != kNone) return true;
    if (KvPolicy::possible_cost(forecast(worker), least) > most) continue;
    // With its exact forecast it may be less preferred. Then its turn comes later.
    if (first_parts(worker) <= best) return true;
  }
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
