#include "kvist/routing/cost_floor.h"

#include <algorithm>
#include <cmath>

namespace kvist::routing {
namespace {

/// As long as points in time are kept as the distance from one base, in single precision.
constexpr Duration kBaseLasts = std::chrono::seconds(8);

double since_epoch_ms(TimePoint time) {
  return to_milliseconds(time.time_since_epoch());
}

}  // namespace

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
      slots_(workers),
      idle_(workers),
      fleet_ratios_(1, 1),
      lanes_(workers),
      requests_(WorkerLanes::padded(workers)),
      waiting_(WorkerLanes::padded(workers)),
      doubt_(WorkerLanes::padded(workers), 1) {
  for (std::uint32_t i = 0; i < workers; ++i) mark(WorkerId(i));
}

void CostFloor::refresh(TimePoint now) {
  follow_fleet_ratios();
  if (const double now_ms = since_epoch_ms(now); now_ms - base_at_ > to_milliseconds(kBaseLasts)) {
    lanes_.set_base(base_at_ = now_ms);
    for (std::uint32_t i = 0; i < workers_.size(); ++i) mark(WorkerId(i));
  }
  constexpr std::size_t kAhead = 4;
  for (std::size_t i = 0; i < due_.size(); ++i) {
    prefetch(due_[std::min(i + kAhead, due_.size() - 1)]);
    refresh(workers_[due_[i].value()], due_[i], now);
  }
  due_.clear();
  refresh_old(now);
}

// A large fleet does not fit into the caches.
void CostFloor::prefetch(WorkerId id) const {
  __builtin_prefetch(&loads_->load(id));
  forecaster_->prefetch(id);
  __builtin_prefetch(&workers_[id.value()]);
  __builtin_prefetch(&workers_[id.value()].computed_at);
  lanes_.prefetch(id);
}

// Looks at all workers twice in kLasts at most.
void CostFloor::refresh_old(TimePoint now) {
  const double now_ms = since_epoch_ms(now);
  if (oldest_at_ >= now_ms - to_milliseconds(kLasts)) return;
  oldest_at_ = now_ms;
  for (std::uint32_t i = 0; i < computed_at_.size(); ++i) {
    if (computed_at_[i] < now_ms - to_milliseconds(kLasts) / 2) refresh(workers_[i], WorkerId(i), now);
    oldest_at_ = std::min(oldest_at_, computed_at_[i]);
  }
}

// Larger batches than were observed have the last ratio. When larger ones are, they have their own.
void CostFloor::follow_fleet_ratios() {
  const std::span<const double> ratios = forecaster_->latency().fleet().ratios();
  if (!ratios.empty() && ratios.size() != fleet_ratios_.size()) {
    fleet_ratios_.resize(ratios.size());
    for (std::uint32_t i = 0; i < workers_.size(); ++i) mark(WorkerId(i));
  }
  for (std::size_t i = 0; i < ratios.size(); ++i) fleet_ratios_[i] = static_cast<float>(ratios[i]);
}

std::uint32_t CostFloor::ratio_index(std::uint32_t batch) const {
  return static_cast<std::uint32_t>(std::min<std::size_t>(batch, fleet_ratios_.size() - 1));
}

void CostFloor::summarize(WorkerId id, std::uint32_t waiting, std::uint32_t requests, const Summary& summary) {
  Summary& known = summaries_[id.value()];
  sums_.remove(waiting_parts(id), known.error);
  sums_.add(waiting, summary.error);
  idle_ += static_cast<std::size_t>(requests == 0) - static_cast<std::size_t>(this->requests(id) == 0);
  known = summary;
  requests_[id.value()] = static_cast<float>(requests);
  waiting_[id.value()] = static_cast<float>(waiting);
  doubt_[id.value()] = static_cast<float>(KvPolicy::possible_cost(1, true, summary.known));
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
  summarize(id, KvPolicy::waiting_parts(load, slots_[id.value()]), load.requests,
            {.known = least_share(w, w.computed_at + to_milliseconds(kLasts)), .error = forecaster_->error(id)});
  w.returning = forecaster_->returning(id).rate(now);
  w.returning.per_ms *= 1 - to_seconds(kLasts) / to_seconds(ReturningRequests::kMemory);

  const PrefillQueue& prompts = forecaster_->prompts(id);
  const PrefillQueue::Outline queue = prompts.outline();
  w.has_prompts = queue.prompts > 0;
  // Each prompt's time is rounded to nanoseconds.
  const double rounding_ms = 1e-6 * static_cast<double>(2 * queue.prompts + 2);
  w.ready = since_epoch_ms(queue.ready) - rounding_ms;
  w.last_first_token = since_epoch_ms(prompts.last_first_token()) - rounding_ms;
  w.head = queue.head;
  w.after = queue.after;
  set_lanes(w, id);
}

// The terms are those of bound(), with what changes by itself taken at the end of kLasts.
void CostFloor::set_lanes(const Worker& w, WorkerId id) {
  const double least_share = summaries_[id.value()].known;
  CostLanes::Worker lanes{
      .others = 1 - w.share * w.learned,
      .with = {.prior_ms = w.prior_with_ms, .own_ratio = w.ratio_with, .batch = ratio_index(w.batch_with)},
      .without = {.prior_ms = w.prior_ms, .own_ratio = w.ratio, .batch = ratio_index(w.batch)},
      .least_share = least_share,
      .share = w.share,
      .per_prompt_token = w.prior_per_prompt_token,
      .batch = static_cast<double>(w.batch),
      .decoding = static_cast<double>(w.decoding),
      .returning = w.returning};
  for (std::size_t i = 0; i < lanes.own.size(); ++i) lanes.own[i] = least_share * w.learned * w.weights[i];
  if (!w.has_prompts) return lanes_.set(id, lanes, nullptr, w.computed_at);
  const CostLanes::Queue queue{.ready = w.ready,
                               .last_first_token = w.last_first_token,
                               .others = 1 - least_share * w.learned,
                               .base_ms = w.share * w.learned * w.weights[0],
                               .steps = w.share * w.learned * w.weights[1],
                               .head = w.head,
                               .after = w.after};
  lanes_.set(id, lanes, &queue, w.computed_at);
}

// Without prompts the worker is free, because its last first token is in the past.
double CostFloor::queue_ms(const Worker& w, const Query& query, const Mix& least, const Mix& most,
                           double most_step_ms) const {
  if (!w.has_prompts) return 0;
  const std::array<double, 4>& fleet = forecaster_->latency().fleet().weights();
  const double per_token = least.of(w.weights[2], fleet[2]);
  const double per_pair = least.of(w.weights[3], fleet[3]);
  const auto prefill_ms = [&](const PrefillSum& sum) { return per_token * sum.uncached + per_pair * sum.pairs; };
  const double way_out_ms = most.of(w.weights[0], fleet[0]) + most.of(w.weights[1], fleet[1]) * most_step_ms;
  const double begun_ms = std::max(w.ready, w.last_first_token - way_out_ms) - query.now_ms;
  return std::max(0.0, begun_ms + prefill_ms(w.head)) + prefill_ms(w.after);
}

double CostFloor::bound(const UsableWorker& usable, std::uint64_t displaced_blocks, const Query& query) const {
  const Worker& w = workers_[usable.worker.value()];
  const LatencyModel& model = forecaster_->latency().fleet();
  const std::array<double, 4>& fleet = model.weights();
  const double least_share = this->least_share(w, query.now_ms);
  // Of the weights of a first token.
  const Mix least_first{.others = 1 - w.share * w.learned, .own = least_share * w.learned};
  const Mix most_first{.others = 1 - least_share * w.learned, .own = w.share * w.learned};
  // A step, and by how much it becomes longer, change in proportion with the share, so one of its ends has the least.
  const double of_prompt_ms = w.prior_per_prompt_token * usable.prompt_tokens;
  const double prior_with_ms = w.prior_with_ms + of_prompt_ms + per_kv_token_ms_ * usable.prompt_tokens;
  const double prior_ms = w.prior_ms + of_prompt_ms;
  const double ratio_with = model.ratio(w.batch_with);
  const double ratio = model.ratio(w.batch);
  const double beside_with_ms = prior_with_ms * (w.ratio_with - ratio_with);
  const double beside_ms = prior_ms * (w.ratio - ratio);
  const double slope_ms = beside_with_ms - beside_ms;
  const double step_with_ms =
      prior_with_ms * ratio_with + std::min(least_share * beside_with_ms, w.share * beside_with_ms);
  const double most_step_ms = prior_ms * ratio + std::max(least_share * beside_ms, w.share * beside_ms);
  const double longer_ms =
      prior_with_ms * ratio_with - prior_ms * ratio + std::min(least_share * slope_ms, w.share * slope_ms);

  const PrefillWork work{.uncached = static_cast<double>(usable.prompt_tokens - usable.cached_tokens),
                         .cached = static_cast<double>(usable.cached_tokens)};
  KvPolicy::Terms terms;
  terms.paid = usable.paid(query.prompt_tokens);
  const double prefill_ms =
      least_first.of(w.weights[2], fleet[2]) * work.uncached + least_first.of(w.weights[3], fleet[3]) * work.pairs();
  terms.prefill_ms = prefill_ms * terms.paid;
  terms.queue_ms = queue_ms(w, query, least_first, most_first, most_step_ms);
  terms.ttft_ms =
      terms.queue_ms + least_first.of(w.weights[0], fleet[0]) + least_first.of(w.weights[1], fleet[1]) * step_with_ms;
  terms.fleet_prefill_ms = model.prefill_ms(work);
  terms.displaced_ms = forecaster_->displaced_ms(displaced_blocks, usable.prompt_tokens);
  if (query.prices.waiting > 0) terms.held_up_ms = w.returning.held_up_ms(terms.queue_ms, prefill_ms);
  terms.own_ms = query.answer_tokens * step_with_ms;
  terms.crowding_ms = query.answer_tokens / 2 * (w.batch * std::max(0.0, longer_ms));
  terms.interruption_ms = w.decoding * terms.prefill_ms;
  return KvPolicy::sum(terms, query.prices);
}

CostFloor::Query CostFloor::query(std::uint32_t prompt_tokens, const KvPolicy::Fleet& fleet, TimePoint now) const {
  return {.now_ms = since_epoch_ms(now),
          .prompt_tokens = prompt_tokens,
          .prices = fleet.prices,
          .answer_tokens = forecaster_->output_lengths().mean_tokens()};
}

void CostFloor::bound_all(const Query& query, std::uint32_t least_tokens, const CostLanes::Request& request,
                          std::span<float> costs) const {
  lanes_.bound({.now_ms = query.now_ms,
                .least_prompt_tokens = static_cast<double>(least_tokens),
                .per_kv_token_ms = per_kv_token_ms_,
                .fleet = forecaster_->latency().fleet().weights(),
                .fleet_ratios = fleet_ratios_,
                .prices = query.prices,
                .answer_tokens = query.answer_tokens},
               request, costs);
}

void CostFloor::keep_idle(std::span<float> costs) const {
  const CostLanes::Lanes none = {};
  const CostLanes::Lanes never = WorkerLanes::all(std::numeric_limits<float>::infinity());
  for (std::size_t at = 0; at < costs.size(); at += CostLanes::kLanes) {
    const auto is_idle = WorkerLanes::load(requests_.data() + at) <= none;
    WorkerLanes::store(costs.data() + at, is_idle ? WorkerLanes::load(costs.data() + at) : never);
  }
}

}  // namespace kvist::routing
