#include "kvist/routing/kv_policy.h"

#include <algorithm>
#include <limits>
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

double cost_of(const Candidate& candidate, const PolicyQuery& query, double waiting) {
  const Forecast& forecast = candidate.forecast;
  const double computed = computed_tokens(candidate, query);
  const double replicated = std::min<double>(candidate.replicate_tokens, computed);
  const double invested_ms = computed > 0 ? forecast.prefill_ms * replicated / computed : 0;
  const double ttft_ms = forecast.ttft_ms - invested_ms;
  const double own_ms = forecast.answer_tokens * forecast.step_with_ms;
  const double crowding_ms = forecast.answer_tokens / 2 * forecast.crowding_ms;
  const double interruption_ms = candidate.load.decoding * (forecast.prefill_ms - invested_ms);
  const double occupied_ms = computed > 0 ? forecast.fleet_prefill_ms * (1 - replicated / computed) : 0;
  return ttft_ms + (KvPolicy::kQueueWeight - 1) * forecast.queue_ms + KvPolicy::kOccupation * waiting * occupied_ms +
         (1 + KvPolicy::kOccupation * waiting) * forecast.displaced_ms +
         KvPolicy::kAnswerShare * (own_ms + crowding_ms + interruption_ms);
}

/// The fleet's requests that wait for their first token and have a slot, per worker.
double mean_waiting(std::span<const Candidate> candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    const WorkerLoad& load = candidate.load;
    const std::uint32_t slots = candidate.limits.max_batch_size;
    const std::uint32_t running = slots == 0 ? load.requests : std::min(load.requests, slots);
    sum += running - std::min(running, load.decoding);
  }
  return sum / static_cast<double>(candidates.size());
}

bool slots_are_taken(const Candidate& candidate) {
  return candidate.limits.max_batch_size > 0 && candidate.load.requests >= candidate.limits.max_batch_size;
}

/// The lowest cost that the candidate may really have. For one with fewer requests than the cheapest candidate, it is
/// below the computed cost, the more so the less was observed of the worker recently.
double possible_cost(const Candidate& candidate, const Candidate& cheapest) {
  if (candidate.load.requests >= cheapest.load.requests) return candidate.cost;
  return candidate.cost * (1 - KvPolicy::kDoubt * (1 - candidate.forecast.known));
}

/// The order within a tie: the deeper cache, then the lower mean load, then the lower load now, then the lower id.
auto preference(const Candidate& candidate, std::uint32_t others) {
  return std::tuple(-static_cast<std::int64_t>(credited_tokens(candidate, others)), candidate.forecast.mean_requests,
                    candidate.load.requests, candidate.worker);
}

/// Index of the candidate whose turn comes after `last`, without those that have no free slot; 0 if none has one.
std::size_t next_in_turn(std::optional<WorkerId> last, std::span<const Candidate> candidates) {
  std::size_t first = candidates.size();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (slots_are_taken(candidates[i])) continue;
    if (!last || candidates[i].worker > *last) return i;
    first = std::min(first, i);
  }
  return first < candidates.size() ? first : 0;
}

}  // namespace

bool KvPolicy::forecasts_are_wrong(std::span<const Candidate> candidates) const {
  double sum = 0;
  int known = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.forecast.error <= 0) continue;
    sum += candidate.forecast.error;
    ++known;
  }
  const double error = known == 0 ? 0 : sum / known;
  return error > (fallen_back_ ? kErrorToReturn : kErrorToFallBack);
}

std::size_t KvPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  const bool any_room = std::ranges::any_of(candidates, [](const Candidate& c) { return c.forecast.has_slot; });
  // The deepest cache among workers with enough free slots and KV memory. If no worker of the fleet has any free,
  // scarcity does not distinguish them, and no credit is withheld.
  std::uint32_t others = any_room ? 0 : query.prompt_tokens;
  for (const Candidate& candidate : candidates) {
    if (!candidate.forecast.scarce) others = std::max(others, candidate.cached_tokens);
  }
  const double waiting = mean_waiting(candidates);
  double least = std::numeric_limits<double>::infinity();
  double tie_ms = 0;
  std::size_t cheapest = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate& candidate = candidates[i];
    candidate.cost = cost_of(candidate, query, waiting) + uncredited_ms(candidate, query, others);
    if (any_room || slots_are_taken(candidate)) candidate.cost += (kRoomWeight - 1) * candidate.forecast.slot_wait_ms;
    if (candidate.cost < least) {
      least = candidate.cost;
      cheapest = i;
      tie_ms = std::max(0.0, kTieSteps * candidate.forecast.step_with_ms);  // a replayed record may contain any number
    }
  }
  fallen_back_ = forecasts_are_wrong(candidates);
  std::size_t chosen = candidates.size();
  if (fallen_back_) {
    chosen = next_in_turn(last_, candidates);
  } else {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (possible_cost(candidates[i], candidates[cheapest]) > least + tie_ms) continue;
      if (chosen == candidates.size() || preference(candidates[i], others) < preference(candidates[chosen], others))
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
