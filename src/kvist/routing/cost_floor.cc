#include "kvist/routing/cost_floor.h"

#include <algorithm>
#include <cmath>

namespace kvist::routing {
namespace {

double since_epoch_ms(TimePoint time) {
  return to_milliseconds(time.time_since_epoch());
}

}  // namespace

struct CostFloor::Query {
  double now = 0;  // milliseconds since the clock's epoch
  std::uint32_t prompt_tokens = 0;
  double waiting = 0;  // KvPolicy's F
  double later = 1;    // KvPolicy::Fleet::later
  double answer_tokens = 0;
  const LatencyModel& fleet;
};

CostFloor::CostFloor(const Forecaster& forecaster, const LoadTracker& loads, std::size_t workers,
                     const spec::StepTimeSpec& prior)
    : forecaster_(&forecaster),
      loads_(&loads),
      fixed_ms_(to_milliseconds(prior.fixed)),
      per_sequence_ms_(to_milliseconds(prior.per_sequence)),
      per_kv_token_ms_(prior.per_kv_token_ns * 1e-6),
      workers_(workers),
      summaries_(workers),
      computed_at_(workers),
      marked_(workers),
      slots_(workers) {
  for (std::uint32_t i = 0; i < workers; ++i) mark(WorkerId(i));
}

void CostFloor::refresh(TimePoint now) {
  for (const WorkerId id : due_) refresh(workers_[id.value()], id, now);
  due_.clear();
  const double oldest = since_epoch_ms(now) - to_milliseconds(kLasts);
  for (std::uint32_t i = 0; i < computed_at_.size(); ++i)
    if (computed_at_[i] < oldest) refresh(workers_[i], WorkerId(i), now);
}

void CostFloor::refresh(Worker& w, WorkerId id, TimePoint now) {
  marked_[id.value()] = 0;
  w.computed_at = computed_at_[id.value()] = since_epoch_ms(now);
  const WorkerLoad& load = loads_->load(id);
  const std::uint32_t slots = slots_[id.value()] == 0 ? ~0U : slots_[id.value()];
  w.decoding = load.decoding;
  w.batch = std::min(load.requests, slots);
  w.batch_with = std::min(load.requests + 1, slots);
  const bool decodes = load.decoding > 0;
  const std::uint64_t context = decodes ? load.context_tokens / load.decoding * w.batch : 0;
  const double context_ms = per_kv_token_ms_ * static_cast<double>(context);
  w.prior_ms = fixed_ms_ + per_sequence_ms_ * w.batch + context_ms;
  w.prior_with_ms = fixed_ms_ + per_sequence_ms_ * w.batch_with + context_ms;
  w.prior_per_prompt_token = decodes ? 0 : per_kv_token_ms_ * w.batch;

  const LatencyModel& model = forecaster_->model(id);
  w.weights = model.weights();
  w.ratio = model.ratio(w.batch);
  w.ratio_with = model.ratio(w.batch_with);
  const FleetLatency::Expectation expected = forecaster_->latency().expect(id, now);
  w.share = expected.own_share();
  w.learned = forecaster_->latency().learned_share(id);
  summaries_[id.value()] = {.waiting = KvPolicy::waiting(load, slots_[id.value()]),
                            .requests = load.requests,
                            .known = least_share(w, w.computed_at + to_milliseconds(kLasts)),
                            .error = forecaster_->error(id)};
  w.returning = forecaster_->returning(id).rate(now);
  w.returning.per_ms *= 1 - to_seconds(kLasts) / to_seconds(ReturningRequests::kMemory);

  const PrefillQueue& prompts = forecaster_->prompts(id);
  const PrefillQueue::Outline queue =
      prompts.outline(now, expected.first_token_ms(expected.step_ms(w.batch, context), {}),
                      [&](const PrefillWork& work) { return expected.prefill_ms(work); });
  w.has_prompts = queue.prompts > 0;
  // Each prompt's time is rounded to nanoseconds.
  const double rounding_ms = 1e-6 * static_cast<double>(2 * queue.prompts + 2);
  w.ready = since_epoch_ms(queue.ready) - rounding_ms;
  w.last_first_token = since_epoch_ms(prompts.last_first_token()) - rounding_ms;
  w.overdue = queue.overdue;
  w.queued = queue.others;
}

// Without prompts the worker is free, because its last first token is in the past.
double CostFloor::queue_ms(const Worker& w, const Query& query, const Mix& least, const Mix& most,
                           double most_step_ms) const {
  if (!w.has_prompts) return 0;
  const std::array<double, 4>& fleet = query.fleet.weights();
  const double per_token = least.of(w.weights[2], fleet[2]);
  const double per_pair = least.of(w.weights[3], fleet[3]);
  const auto prefill_ms = [&](const PrefillQueue::Sum& sum) { return per_token * sum.uncached + per_pair * sum.pairs; };
  const double way_out_ms = most.of(w.weights[0], fleet[0]) + most.of(w.weights[1], fleet[1]) * most_step_ms;
  const double begun_ms = std::max(w.ready, w.last_first_token - way_out_ms) - query.now;
  const double overdue_ms = prefill_ms(w.overdue);
  return std::max(0.0,
                  std::max(begun_ms + overdue_ms, std::min(begun_ms + 2 * overdue_ms, 0.0)) + prefill_ms(w.queued));
}

double CostFloor::bound(const UsableWorker& usable, const Query& query) const {
  const Worker& w = workers_[usable.worker.value()];
  const std::array<double, 4>& fleet = query.fleet.weights();
  const double least_share = this->least_share(w, query.now);
  const Mix least{.others = 1 - w.share, .own = least_share};
  const Mix most{.others = 1 - least_share, .own = w.share};
  // The same for the weights of the first token.
  const Mix least_first{.others = 1 - w.share * w.learned, .own = least_share * w.learned};
  const Mix most_first{.others = 1 - least_share * w.learned, .own = w.share * w.learned};
  const double of_prompt_ms = w.prior_per_prompt_token * usable.prompt_tokens;
  const double step_with_ms = (w.prior_with_ms + of_prompt_ms + per_kv_token_ms_ * usable.prompt_tokens) *
                              least.of(w.ratio_with, query.fleet.ratio(w.batch_with));
  const double most_step_ms = (w.prior_ms + of_prompt_ms) * most.of(w.ratio, query.fleet.ratio(w.batch));

  const PrefillWork work{.uncached = static_cast<double>(usable.prompt_tokens - usable.cached_tokens),
                         .cached = static_cast<double>(usable.cached_tokens)};
  KvPolicy::Terms terms;
  if (usable.replicate_tokens > 0) {
    const double computed = query.prompt_tokens - usable.cached_tokens;
    terms.paid = computed > 0 ? 1 - std::min<double>(usable.replicate_tokens, computed) / computed : 0;
  }
  const double prefill_ms =
      least_first.of(w.weights[2], fleet[2]) * work.uncached + least_first.of(w.weights[3], fleet[3]) * work.pairs();
  terms.prefill_ms = prefill_ms * terms.paid;
  terms.queue_ms = queue_ms(w, query, least_first, most_first, most_step_ms);
  terms.ttft_ms = terms.queue_ms + least_first.of(w.weights[0], fleet[0]) +
                  least_first.of(w.weights[1], fleet[1]) * step_with_ms;
  terms.fleet_prefill_ms = query.fleet.prefill_ms(work);
  if (usable.displaced_blocks > 0)
    terms.displaced_ms = forecaster_->displaced_ms(usable.displaced_blocks, usable.prompt_tokens);
  if (query.waiting > 0) terms.held_up_ms = w.returning.held_up_ms(terms.queue_ms, prefill_ms);
  terms.own_ms = query.answer_tokens * step_with_ms;
  terms.crowding_ms = query.answer_tokens / 2 * (w.batch * std::max(0.0, step_with_ms - most_step_ms));
  terms.interruption_ms = w.decoding * terms.prefill_ms;
  return KvPolicy::sum(terms, query.waiting, query.later) + usable.affinity_ms;
}

void CostFloor::bound(std::span<const UsableWorker> usable, std::uint32_t prompt_tokens, const KvPolicy::Fleet& fleet,
                      TimePoint now, std::span<double> costs) const {
  const Query query{.now = since_epoch_ms(now),
                    .prompt_tokens = prompt_tokens,
                    .waiting = fleet.waiting,
                    .later = fleet.later,
                    .answer_tokens = forecaster_->output_lengths().mean_tokens(),
                    .fleet = forecaster_->latency().fleet()};
  for (std::size_t i = 0; i < usable.size(); ++i) costs[i] = bound(usable[i], query);
}

}  // namespace kvist::routing
