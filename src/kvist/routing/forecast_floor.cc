#include "kvist/routing/forecast_floor.h"

#include <algorithm>
#include <limits>

namespace kvist::routing {
namespace {

double since_epoch_ms(TimePoint time) {
  return to_milliseconds(time.time_since_epoch());
}

}  // namespace

ForecastFloor::ForecastFloor(const Forecaster& forecaster, const LoadTracker& loads, std::size_t workers,
                             const spec::StepTimeSpec& prior)
    : forecaster_(&forecaster),
      loads_(&loads),
      fixed_ms_(to_milliseconds(prior.fixed)),
      per_sequence_ms_(to_milliseconds(prior.per_sequence)),
      per_kv_token_ms_(prior.per_kv_token_ns * 1e-6),
      workers_(workers) {
  for (std::uint32_t i = 0; i < workers; ++i) mark(WorkerId(i));
}

void ForecastFloor::refresh(TimePoint now) {
  for (std::uint32_t i = 0; i < kInTurn; ++i) {
    mark(WorkerId(next_in_turn_));
    next_in_turn_ = (next_in_turn_ + 1) % static_cast<std::uint32_t>(workers_.size());
  }
  for (const WorkerId worker : due_) refresh(worker, now);
  due_.clear();
}

void ForecastFloor::refresh(WorkerId id, TimePoint now) {
  Worker& w = workers_[id.value()];
  w.marked = false;
  w.computed_at = since_epoch_ms(now);
  const WorkerLoad& load = loads_->load(id);
  const std::uint32_t slots = w.slots == 0 ? ~0U : w.slots;
  w.batch = std::min(load.requests, slots);
  w.batch_with = std::min(load.requests + 1, slots);
  const bool decodes = load.decoding > 0;
  const std::uint64_t context = decodes ? load.context_tokens / load.decoding * w.batch : 0;
  const double context_ms = per_kv_token_ms_ * static_cast<double>(context);
  w.prior_ms = fixed_ms_ + per_sequence_ms_ * w.batch + context_ms;
  w.prior_with_ms = fixed_ms_ + per_sequence_ms_ * w.batch_with + context_ms;
  w.prior_per_prompt_token = decodes ? 0 : per_kv_token_ms_ * w.batch;

  const LatencyModel& model = forecaster_->model(id);
  w.ratio = model.ratio(w.batch);
  w.ratio_with = model.ratio(w.batch_with);
  w.weights = model.weights();
  w.error = forecaster_->error(id);
  w.returning = forecaster_->returning(id).rate(now);
  const FleetLatency::Expectation expected = forecaster_->latency().expect(id, now);
  w.share = expected.own_share();
  const PrefillQueue& prompts = forecaster_->prompts(id);
  const PrefillQueue::Outline queue =
      prompts.outline(now, expected.first_token_ms(expected.step_ms(w.batch, context), {}),
                      [&](const PrefillWork& work) { return expected.prefill_ms(work); });
  // Each prompt's time is rounded to nanoseconds.
  const double rounding_ms = 1e-6 * static_cast<double>(2 * queue.prompts + 2);
  w.ready = queue.prompts == 0 ? -std::numeric_limits<double>::infinity() : since_epoch_ms(queue.ready) - rounding_ms;
  w.last_first_token = since_epoch_ms(prompts.last_first_token()) - rounding_ms;
  w.overdue = queue.overdue;
  w.queued = queue.others;
}

Forecast ForecastFloor::least(WorkerId id, const ForecastQuery& query, TimePoint now) const {
  const Worker& w = workers_[id.value()];
  const LatencyModel& fleet = forecaster_->latency().fleet();
  const auto& weights = fleet.weights();
  const double elapsed_ms = since_epoch_ms(now) - w.computed_at;
  const double least_share = std::max(0.0, w.share - kShareFall * 1e-3 * elapsed_ms);
  const auto least = [&](double own, double others) {
    return others + std::min(least_share * (own - others), w.share * (own - others));
  };
  const auto most = [&](double own, double others) {
    return others + std::max(least_share * (own - others), w.share * (own - others));
  };
  const double base = least(w.weights[0], weights[0]);
  const double steps = least(w.weights[1], weights[1]);
  const double per_token = least(w.weights[2], weights[2]);
  const double per_pair = least(w.weights[3], weights[3]);
  const auto prefill_ms = [&](const PrefillQueue::Sum& sum) { return per_token * sum.uncached + per_pair * sum.pairs; };

  const double of_prompt_ms = w.prior_per_prompt_token * query.prompt_tokens;
  const double prior_ms = w.prior_ms + of_prompt_ms;
  const double prior_with_ms = w.prior_with_ms + of_prompt_ms + per_kv_token_ms_ * query.prompt_tokens;
  const double most_step_ms = prior_ms * most(w.ratio, fleet.ratio(w.batch));
  Forecast f;
  f.step_ms = prior_ms * least(w.ratio, fleet.ratio(w.batch));
  f.step_with_ms = prior_with_ms * least(w.ratio_with, fleet.ratio(w.batch_with));

  const double way_out_ms = most(w.weights[0], weights[0]) + most(w.weights[1], weights[1]) * most_step_ms;
  const double begun_ms = std::max(w.ready, w.last_first_token - way_out_ms) - since_epoch_ms(now);
  const double overdue_ms = prefill_ms(w.overdue);
  f.queue_ms =
      std::max(0.0, std::max(begun_ms + overdue_ms, std::min(begun_ms + 2 * overdue_ms, 0.0)) + prefill_ms(w.queued));

  const PrefillWork work{.uncached = static_cast<double>(query.uncached_tokens),
                         .cached = static_cast<double>(query.prompt_tokens - query.uncached_tokens)};
  f.prefill_ms = per_token * work.uncached + per_pair * work.pairs();
  f.fleet_prefill_ms = fleet.prefill_ms(work);
  f.displaced_ms = forecaster_->displaced_ms(query);
  f.ttft_ms = f.queue_ms + base + steps * f.step_with_ms + f.prefill_ms;
  const double still = std::max(0.0, 1 - elapsed_ms / to_milliseconds(ReturningRequests::kMemory));
  f.held_up_ms = still * w.returning.held_up_ms(f.queue_ms, f.prefill_ms);
  f.crowding_ms = w.batch * std::max(0.0, f.step_with_ms - most_step_ms);
  f.answer_tokens = forecaster_->output_lengths().mean_tokens();
  f.known = least_share;
  f.error = w.error;
  return f;
}

}  // namespace kvist::routing
