#include "kvist/simulation/clairvoyance.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kvist/routing/router.h"

namespace kvist::simulation {

Result<void> Clairvoyance::add_worker(const spec::WorkerSpec& worker) {
  KVIST_TRY(engine::RollForward engine, engine::RollForward::of(worker));
  slowness_.push_back(static_cast<double>(engine.full_prefill_step().count()));
  mean_slowness_ = std::accumulate(slowness_.begin(), slowness_.end(), 0.0) / static_cast<double>(slowness_.size());
  engines_.push_back(std::move(engine));
  block_sizes_.push_back(worker.block_size);
  return {};
}

void Clairvoyance::on_turn(const workload::StartTurn& turn) {
  request_ = {.id = {},
              .prompt = {},
              .max_tokens = turn.max_tokens,
              .seed = turn.seed,
              .ignore_eos = turn.ignore_eos,
              .cache_salt = {}};
}

void Clairvoyance::amend(const routing::RouteQuery& query, std::span<routing::Candidate> candidates) {
  for (routing::Candidate& candidate : candidates) amend(query, candidate);
}

// The requests that have given a first token. A request whose last part of the prompt is under way has not.
std::uint32_t Clairvoyance::decoding() const {
  auto count = std::ranges::count_if(view_.core.running, [](const engine::SequenceView& sequence) {
    return sequence.planned >= sequence.prefill_end && !sequence.ended;
  });
  for (const engine::DriverView::Step& step : view_.steps) {
    count -= std::ranges::count_if(step.plan->sequences, [](const engine::SequenceStep& sequence) {
      return sequence.is_prefill && sequence.samples;
    });
  }
  return static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(0, count));
}

void Clairvoyance::amend(const routing::RouteQuery& query, routing::Candidate& candidate) {
  const std::size_t i = candidate.worker.value();
  (*workers_)[i].look(view_);
  incoming_.clear();
  network_->for_each_work(candidate.worker, [this](const engine::Request& request, TimePoint arrives) {
    incoming_.push_back({.request = &request, .prompt_tokens = request.prompt_tokens(), .arrives = arrives});
  });
  const TimePoint now = time_->now();
  const Duration hop = network_->spec().worker_hop;
  incoming_.push_back({.request = &request_,
                       .prompt_tokens = query.prompt_tokens,
                       .block_hashes = routing::view(query.blocks),
                       .arrives = now + hop});
  const engine::Foresight foresight = engines_[i].look_ahead(view_, incoming_, now);

  candidate.cached_tokens = foresight.cached_tokens;
  candidate.cached_blocks = foresight.cached_tokens / block_sizes_[i];
  candidate.trust = routing::CacheTrust::kExact;
  candidate.load.requests = static_cast<std::uint32_t>(view_.core.running.size() + view_.core.waiting.size() +
                                                       view_.arrivals.size() + incoming_.size() - 1);
  candidate.load.decoding = decoding();

  routing::Forecast& forecast = candidate.forecast;
  const double lengthening_ms = to_milliseconds(foresight.step_with - foresight.step);
  const auto answer = static_cast<double>(foresight.answer_tokens);
  forecast.step_ms = to_milliseconds(foresight.step);
  forecast.step_with_ms = to_milliseconds(foresight.step_with);
  forecast.slot_wait_ms = to_milliseconds(foresight.slot_wait);
  forecast.queue_ms = to_milliseconds(foresight.queue);
  forecast.prefill_ms = to_milliseconds(foresight.prefill);
  forecast.fleet_prefill_ms = forecast.prefill_ms * mean_slowness_ / slowness_[i];
  forecast.ttft_ms = to_milliseconds(foresight.first_token + hop - now);
  // The cost counts crowding for half an answer, because it does not know how much the others have left.
  forecast.crowding_ms = answer > 0 ? lengthening_ms * static_cast<double>(foresight.shared_steps) * 2 / answer : 0;
  forecast.answer_tokens = answer;
  forecast.error = 0;
  forecast.known = 1;
  forecast.lost_tokens = 0;
  forecast.has_slot = foresight.slot_wait == Duration::zero();
}

}  // namespace kvist::simulation
