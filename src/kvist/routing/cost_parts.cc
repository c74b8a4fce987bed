#include "kvist/routing/cost_parts.h"

#include <algorithm>

#include "kvist/routing/kv_policy.h"

namespace kvist::routing {

// The terms are those of KvPolicy::cost().
std::optional<CostAccount> account_of(const DecisionRecord& record) {
  if (record.mode != spec::RoutingMode::kKv || record.reason != DecisionReason::kPolicy || record.candidates.empty() ||
      (record.left_out > 0 && !record.fleet))
    return std::nullopt;
  const PolicyQuery query = record.query();
  const KvPolicy::Fleet fleet =
      record.left_out > 0 ? KvPolicy::fleet_of(query, *record.fleet) : KvPolicy::fleet_of_all(query, record.candidates);
  const auto& cheapest = *std::ranges::min_element(record.candidates, {}, &Candidate::cost);
  CostAccount account{.waiting = fleet.prices.waiting, .most_in_tie = KvPolicy::most_in_tie(cheapest), .parts = {}};
  for (const Candidate& candidate : record.candidates) {
    const KvPolicy::Terms terms = KvPolicy::terms_of(candidate, query);
    account.parts.push_back(
        {.worker = candidate.worker,
         .ttft_ms = terms.ttft_ms + terms.prefill_ms,
         .queue_ms = (KvPolicy::kQueueWeight - 1) * terms.queue_ms,
         .occupation_ms = KvPolicy::kOccupation * fleet.prices.waiting * terms.fleet_prefill_ms * terms.paid,
         .displaced_ms = (1 + KvPolicy::kOccupation * fleet.prices.waiting) * terms.displaced_ms,
         .recomputed_ms = fleet.prices.recomputed * terms.fleet_prefill_ms * terms.paid,
         .held_up_ms = KvPolicy::kHeldUpWeight * fleet.prices.waiting * terms.held_up_ms * terms.paid,
         .interruption_ms = fleet.prices.later * KvPolicy::kInterruptionShare * terms.interruption_ms,
         .answer_ms = fleet.prices.later * KvPolicy::kAnswerShare * (terms.own_ms + terms.crowding_ms),
         .scarcity_ms = KvPolicy::scarcity_ms(candidate, query, fleet),
         .session_ms = candidate.affinity_ms});
  }
  return account;
}

}  // namespace kvist::routing
