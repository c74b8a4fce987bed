#include "kvist/routing/kv_policy.h"

#include <algorithm>
#include <tuple>

namespace kvist::routing {
namespace {

/// The cached tokens that count for a worker. Where its slots or KV memory are scarce, they are at most `others`.
std::uint32_t credited_tokens(const Candidate& candidate, std::uint32_t others) {
  return candidate.forecast.scarce ? std::min(candidate.cached_tokens, others) : candidate.cached_tokens;
}

/// The tokens that the forecast's prefill computes.
double computed_tokens(const Candidate& candidate, const PolicyQuery& query) {
  return query.prompt_tokens - candidate.cached_tokens + candidate.forecast.lost_tokens;
}

/// The prefill time that the cached tokens without credit save, in milliseconds. Those that are lost save none.
double uncredited_ms(const Candidate& candidate, const PolicyQuery& query, std::uint32_t others) {
  const double computed = computed_tokens(candidate, query);
  if (computed <= 0) return 0;
  const double kept = candidate.cached_tokens - candidate.forecast.lost_tokens;
  return candidate.forecast.prefill_ms / computed * std::max(0.0, kept - credited_tokens(candidate, others));
}

/// The fleet of candidates that have their forecasts.
struct Forecasts {
  std::span<const Candidate> candidates;

  [[nodiscard]] std::size_t size() const { return candidates.size(); }
  [[nodiscard]] KvPolicy::Sums sums() const {
    KvPolicy::Sums sums;
    for (const Candidate& candidate : candidates)
      sums.add(KvPolicy::waiting_parts(candidate.load, candidate.limits.max_batch_size), candidate.forecast.error);
    return sums;
  }
  template <class Visit>
  void for_each_cached_above(const std::uint32_t& tokens, Visit visit) const {
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].cached_tokens > tokens) visit(i, candidates[i].cached_tokens);
  }
  [[nodiscard]] KvPolicy::Room room(std::size_t i) const {
    return {.has_slot = candidates[i].forecast.has_slot, .scarce = candidates[i].forecast.scarce};
  }
};

bool slots_are_taken(const Candidate& candidate) {
  return candidate.limits.max_batch_size > 0 && candidate.load.requests >= candidate.limits.max_batch_size;
}

/// The parts of a wait for a slot or KV memory that are not in the time to first token.
double further_slot_wait_ms(const Candidate& candidate, const KvPolicy::Fleet& fleet) {
  if (!fleet.any_room) return 0;
  const double weight = slots_are_taken(candidate) ? KvPolicy::kSlotWeight : KvPolicy::kMemoryWeight;
  return (weight - 1) * candidate.forecast.slot_wait_ms;
}

/// Index of the candidate whose turn comes after `last`. Those that have no free slot have a turn only if none has one.
std::size_t next_in_turn(std::optional<WorkerId> last, std::span<const Candidate> candidates) {
  const bool all_taken = std::ranges::all_of(candidates, slots_are_taken);
  std::size_t first = candidates.size();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!all_taken && slots_are_taken(candidates[i])) continue;
    if (!last || candidates[i].worker > *last) return i;
    first = std::min(first, i);
  }
  return first;
}

}  // namespace

std::uint32_t KvPolicy::waiting_parts(const WorkerLoad& load, std::uint32_t slots) {
  const std::uint32_t running = slots == 0 ? load.requests : std::min(load.requests, slots);
  const std::uint32_t waiting = load.requests - std::min(load.requests, load.decoding);
  const std::uint32_t with_slot = running - std::min(running, load.decoding);
  return kPartsWithSlot * with_slot + kPartsWithout * (waiting - with_slot);
}

KvPolicy::Terms KvPolicy::terms_of(const Candidate& candidate, const PolicyQuery& query) {
  const Forecast& forecast = candidate.forecast;
  const double computed = computed_tokens(candidate, query);
  const double paid = computed > 0 ? 1 - std::min<double>(candidate.replicate_tokens, computed) / computed : 0;
  const double prefill_ms = forecast.prefill_ms * paid;
  return {.ttft_ms = forecast.ttft_ms - forecast.prefill_ms,
          .queue_ms = forecast.queue_ms,
          .prefill_ms = prefill_ms,
          .fleet_prefill_ms = forecast.fleet_prefill_ms,
          .displaced_ms = forecast.displaced_ms,
          .held_up_ms = forecast.held_up_ms,
          .own_ms = forecast.answer_tokens * forecast.step_with_ms,
          .crowding_ms = forecast.answer_tokens / 2 * forecast.crowding_ms,
          .interruption_ms = candidate.load.decoding * prefill_ms,
          .paid = paid};
}

double KvPolicy::scarcity_ms(const Candidate& candidate, const PolicyQuery& query, const Fleet& fleet) {
  return uncredited_ms(candidate, query, fleet.others) + further_slot_wait_ms(candidate, fleet);
}

KvPolicy::Fleet KvPolicy::fleet_of_all(const PolicyQuery& query, std::span<const Candidate> candidates) {
  return fleet_of(query, Forecasts{.candidates = candidates});
}

double KvPolicy::cost(const Candidate& candidate, const PolicyQuery& query, const Fleet& fleet) {
  double cost = sum(terms_of(candidate, query), fleet.prices) + uncredited_ms(candidate, query, fleet.others);
  cost += candidate.affinity_ms;
  cost += further_slot_wait_ms(candidate, fleet);
  return cost;
}

double KvPolicy::possible_cost(const Candidate& candidate, const Candidate& cheapest) {
  return possible_cost(candidate.cost, candidate.load.requests < cheapest.load.requests, candidate.forecast.known);
}

double KvPolicy::most_in_tie(const Candidate& cheapest) {
  return cheapest.cost +
         std::max(0.0, kTieSteps * cheapest.forecast.step_with_ms);  // a replayed record may contain any number
}

KvPolicy::Preference KvPolicy::preference(const Candidate& candidate, std::uint32_t others) {
  return {-static_cast<std::int64_t>(credited_tokens(candidate, others)),
          waiting_parts(candidate.load, candidate.limits.max_batch_size),
          -candidate.forecast.since_routed_ms,
          candidate.forecast.mean_requests,
          candidate.load.requests,
          candidate.worker};
}

std::size_t KvPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  const Fleet fleet = fleet_of_all(query, candidates);
  for (Candidate& candidate : candidates) candidate.cost = cost(candidate, query, fleet);
  return choose_by_cost(fleet, candidates);
}

std::size_t KvPolicy::choose_by_cost(const Fleet& fleet, std::span<const Candidate> candidates) {
  std::size_t cheapest = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    if (candidates[i].cost < candidates[cheapest].cost) cheapest = i;
  }
  fallen_back_ = would_fall_back(fleet);
  found_ = {.waiting = fleet.prices.waiting, .any_room = fleet.any_room, .cached_tokens = fleet.others};
  std::size_t chosen = candidates.size();
  if (fallen_back_) {
    chosen = next_in_turn(last_, candidates);
  } else {
    const double most = most_in_tie(candidates[cheapest]);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (possible_cost(candidates[i], candidates[cheapest]) > most) continue;
      if (chosen == candidates.size() ||
          preference(candidates[i], fleet.others) < preference(candidates[chosen], fleet.others))
        chosen = i;
    }
  }
  last_ = candidates[chosen].worker;
  return chosen;
}

// The last worker's id plus one; the highest bit says whether the forecasts were too wrong.
std::uint64_t KvPolicy::state() const {
  return (last_ ? last_->value() + 1ULL : 0) | static_cast<std::uint64_t>(fallen_back_) << 63U;
}

void KvPolicy::set_state(std::uint64_t state) {
  fallen_back_ = (state >> 63U) != 0;
  const auto worker = static_cast<std::uint32_t>(state & 0xFFFF'FFFFU);
  last_ = worker == 0 ? std::nullopt : std::optional(WorkerId(worker - 1));
}

}  // namespace kvist::routing
