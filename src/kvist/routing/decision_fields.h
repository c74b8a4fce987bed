// The fields of a recorded decision's parts by name, in one place for all code that writes, reads or shows them.
#pragma once

#include "kvist/routing/decision_record.h"

namespace kvist::routing {

/// Calls visit("name", field) for every field that a policy sees, in the order of the file. A field that is missing
/// here would be missing in a replay, so decision_json_test fails when the size of one of the structures changes.
template <class Load, class Visit>
void visit_load(Load& load, Visit visit) {
  visit("requests", load.requests);
  visit("decoding", load.decoding);
  visit("prefill_tokens", load.prefill_tokens);
  visit("prompt_blocks", load.prompt_blocks);
  visit("output_tokens", load.output_tokens);
  visit("context_tokens", load.context_tokens);
}

template <class Limits, class Visit>
void visit_limits(Limits& limits, Visit visit) {
  visit("block_size", limits.block_size);
  visit("kv_blocks", limits.kv_blocks);
  visit("max_batch_size", limits.max_batch_size);
  visit("max_num_tokens", limits.max_num_tokens);
}

template <class Terms, class Visit>
void visit_forecast(Terms& forecast, Visit visit) {
  visit("step_ms", forecast.step_ms);
  visit("step_with_ms", forecast.step_with_ms);
  visit("slot_wait_ms", forecast.slot_wait_ms);
  visit("queue_ms", forecast.queue_ms);
  visit("lost_tokens", forecast.lost_tokens);
  visit("prefill_ms", forecast.prefill_ms);
  visit("fleet_prefill_ms", forecast.fleet_prefill_ms);
  visit("displaced_ms", forecast.displaced_ms);
  visit("held_up_ms", forecast.held_up_ms);
  visit("ttft_ms", forecast.ttft_ms);
  visit("crowding_ms", forecast.crowding_ms);
  visit("answer_tokens", forecast.answer_tokens);
  visit("mean_requests", forecast.mean_requests);
  visit("since_routed_ms", forecast.since_routed_ms);
  visit("known", forecast.known);
  visit("error", forecast.error);
  visit("has_slot", forecast.has_slot);
  visit("scarce", forecast.scarce);
}

/// The candidate's own fields, except for worker, trust, cost and the three parts above.
template <class Worker, class Visit>
void visit_candidate(Worker& candidate, Visit visit) {
  visit("cached_blocks", candidate.cached_blocks);
  visit("cached_tokens", candidate.cached_tokens);
  visit("new_blocks", candidate.new_blocks);
  visit("replicate_tokens", candidate.replicate_tokens);
  visit("lower_tier_blocks", candidate.lower_tier_blocks);
  visit("affinity_ms", candidate.affinity_ms);
}

}  // namespace kvist::routing
