#include "kvist/routing/forecaster.h"

#include <algorithm>

namespace kvist::routing {
namespace {

/// Gaps beyond it are no steps: the client was slow, the worker stood still.
constexpr double kLongestStepMs = 60'000;

}  // namespace

Forecaster::Forecaster(const LoadTracker& loads, std::size_t workers, const spec::StepTimeSpec& prior,
                       std::uint32_t block_size)
    : loads_(&loads), block_size_(block_size), workers_(workers, Worker(prior)) {}

Forecast Forecaster::forecast(WorkerId id, const EngineLimits& limits, const ForecastQuery& query) const {
  const LatencyModel& model = workers_.at(id.value()).model;
  const WorkerLoad& load = loads_->load(id);
  // Those before it that have no first token yet will be decoding beside it soon.
  const std::uint32_t slots = limits.max_batch_size == 0 ? ~0U : limits.max_batch_size;
  const std::uint32_t batch = std::min(load.requests, slots);
  const std::uint32_t batch_with = std::min(load.requests + 1, slots);
  const std::uint64_t mean_context = load.decoding == 0 ? query.prompt_tokens : load.context_tokens / load.decoding;
  Forecast f;
  f.step_ms = model.step_ms(batch, mean_context * batch);
  f.step_with_ms = model.step_ms(batch_with, mean_context * batch + query.prompt_tokens);
  if (load.requests >= slots) {
    f.has_slot = false;
    f.slot_wait_ms = f.step_ms * lengths_.steps_until_ended(loads_->progress(id), load.requests + 1.0 - slots);
  }
  f.queue_ms = model.prefill_ms(static_cast<double>(load.prefill_tokens));
  f.prefill_ms = model.prefill_ms(query.uncached_tokens);
  f.ttft_ms = f.slot_wait_ms +
              model.first_token_ms(f.step_with_ms, static_cast<double>(load.prefill_tokens) + query.uncached_tokens);
  f.crowding_ms = batch * std::max(0.0, f.step_with_ms - f.step_ms);
  return f;
}

void Forecaster::on_routed(RequestId request, WorkerId worker, const Forecast& forecast, std::uint64_t prefill_tokens,
                           TimePoint now) {
  pending_[request] = {.routed = now,
                       .step_ms = forecast.step_with_ms,
                       .prefill_tokens = static_cast<double>(prefill_tokens),
                       .has_slot = forecast.has_slot};
  workers_[worker.value()].clean = false;
}

void Forecaster::on_first_token(RequestId request, TimePoint now) {
  const Pending* const pending = pending_.find(request);
  if (pending == nullptr) return;
  const LoadTracker::Request* const booked = loads_->find(request);
  // A wait for a slot would be taken for slow prefill.
  if (booked != nullptr && pending->has_slot) {
    workers_[booked->worker.value()].model.observe_first_token({.ttft_ms = to_milliseconds(now - pending->routed),
                                                                .step_ms = pending->step_ms,
                                                                .prefill_tokens = pending->prefill_tokens});
  }
  pending_.erase(request);
}

bool Forecaster::only_decodes(WorkerId worker) const {
  const WorkerLoad& load = loads_->load(worker);
  return load.decoding == load.requests;
}

void Forecaster::on_progress(RequestId request, TimePoint now) {
  const LoadTracker::Request* const booked = loads_->find(request);
  if (booked == nullptr || !booked->decoding) return;
  Worker& worker = workers_[booked->worker.value()];
  if (worker.clock != request) {
    if (loads_->find(worker.clock) != nullptr) return;
    worker.clock = request;
    worker.clean = false;
  }
  const WorkerLoad& load = loads_->load(booked->worker);
  const double gap_ms = to_milliseconds(now - worker.clocked);
  if (worker.clean && only_decodes(booked->worker) && worker.decoding == load.decoding && gap_ms < kLongestStepMs) {
    worker.model.observe_step(load.decoding, load.context_tokens, gap_ms);
  }
  worker.clocked = now;
  worker.decoding = load.decoding;
  worker.clean = only_decodes(booked->worker);
}

void Forecaster::on_finished(RequestId request, bool completed) {
  pending_.erase(request);
  const LoadTracker::Request* const booked = loads_->find(request);
  if (booked == nullptr) return;
  if (completed) lengths_.observe(booked->output_tokens);
  workers_[booked->worker.value()].clean = false;
}

}  // namespace kvist::routing
