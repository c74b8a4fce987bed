#include "kvist/dispatch/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::dispatch {

Dispatcher::Dispatcher(Options options, Fleet& fleet, routing::Router& router)
    : options_(options), fleet_(&fleet), router_(&router), budget_(options.retry_budget), stalls_(fleet.size()) {
  counters_.by_worker.resize(fleet.size());
}

Result<Ticket> Dispatcher::start(const RequestProfile& profile, TimePoint now) {
  if (!has_room()) {
    counters_.without_worker.add(Outcome::kRejected);
    return fail(ErrorCode::kUnavailable,
                fmt::format("{} requests are in flight, which is the most this gateway takes", live_.size()));
  }
  budget_.on_request(now);
  last_id_ = RequestId(last_id_.value() + 1);
  DispatchedRequest request;
  request.query = {.request = last_id_,
                   .name = profile.name,
                   .prompt_tokens = profile.prompt_tokens,
                   .blocks = profile.blocks,
                   .otherwise = profile.otherwise,
                   .reads_cache = profile.reads_cache,
                   .session = profile.session,
                   .excluded = {}};
  request.streams = profile.streams;
  const auto decision = router_->route(request.query, fleet_->views(), now);
  if (!decision) {
    counters_.without_worker.add(Outcome::kNoWorker);
    return std::unexpected(decision.error());
  }
  give(request, *decision, now);
  return Ticket{.handle = live_.insert(std::move(request)), .decision = *decision};
}

DispatchedRequest& Dispatcher::live(DispatchHandle handle) {
  DispatchedRequest* const found = live_.find(handle);
  KVIST_CHECK(found != nullptr, "a request is told of before it ends, and ends once");
  return *found;
}

std::optional<routing::Decision> Dispatcher::on_attempt_failed(DispatchHandle handle, AttemptFailure failure,
                                                               std::string_view problem, TimePoint now) {
  DispatchedRequest& live = this->live(handle);
  take_back(live);
  router_->on_finished(live.attempt, false, now);
  if (failure == AttemptFailure::kTransport || failure == AttemptFailure::kTimedOut)
    fleet_->on_failure(live.worker, problem, now);
  if (failure == AttemptFailure::kServerError) fleet_->on_server_error(live.worker, problem, now);
  if (failure == AttemptFailure::kTimedOut) return std::nullopt;
  return retry(live, now);
}

std::optional<routing::Decision> Dispatcher::retry(DispatchedRequest& live, TimePoint now) {
  if (live.retries >= options_.max_retries) return std::nullopt;
  live.query.excluded.push_back(live.worker);
  auto decision = router_->route(live.query, fleet_->views(), now);
  if (!decision) return std::nullopt;
  // The budget is asked last, so that a retry without a worker to go to takes nothing out of it.
  if (!budget_.try_take(now)) {
    router_->on_finished(decision->request, false, now);
    ++counters_.retries_over_budget;
    return std::nullopt;
  }
  ++live.retries;
  ++counters_.retries;
  give(live, *decision, now);
  return std::move(*decision);
}

void Dispatcher::give(DispatchedRequest& request, const routing::Decision& decision, TimePoint now) {
  request.worker = decision.worker;
  request.attempt = decision.request;
  request.at_worker = true;
  if (request.streams) stalls_.on_attempt(request.worker, now);
}

void Dispatcher::take_back(DispatchedRequest& request) {
  const bool paused = std::exchange(request.paused, false);
  if (std::exchange(request.at_worker, false) && request.streams && !paused) stalls_.on_left(request.worker);
}

void Dispatcher::on_paused(DispatchHandle handle) {
  DispatchedRequest& request = live(handle);
  if (!request.at_worker || !request.streams || std::exchange(request.paused, true)) return;
  stalls_.on_left(request.worker);
}

// The worker may have had nothing else that showed progress in the meantime.
void Dispatcher::on_resumed(DispatchHandle handle, TimePoint now) {
  DispatchedRequest& request = live(handle);
  if (!std::exchange(request.paused, false)) return;
  stalls_.on_attempt(request.worker, now);
  stalls_.on_progress(request.worker, now);
}

void Dispatcher::on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer, TimePoint now) {
  if (const routing::RoutedRequest* const request = router_->find(attempt)) stalls_.on_progress(request->worker, now);
  router_->on_whole_answer(attempt, answer, now);
}

void Dispatcher::on_first_token(routing::RequestHandle attempt, TimePoint now) {
  router_->on_first_token(attempt, now);
  const routing::RoutedRequest* const request = router_->find(attempt);
  if (request == nullptr) return;
  stalls_.on_progress(request->worker, now);
  // This is more than an error of the forecast can explain. So the request waited for a slot, and the worker has fewer
  // slots than assumed.
  constexpr double kTimes = 3;
  constexpr double kBeyondMs = 1'000;
  const routing::FirstTokenExpectation& expected = request->first_token;
  const bool late = to_milliseconds(now - expected.routed) > kTimes * expected.ttft_ms + kBeyondMs;
  fleet_->on_first_token(request->worker, router_->loads().load(request->worker).decoding, late);
}

void Dispatcher::on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint now) {
  if (const auto worker = router_->on_progress(attempt, tokens, now)) stalls_.on_progress(*worker, now);
}

std::vector<WorkerId> Dispatcher::check_stalls(TimePoint now) {
  std::vector<WorkerId> began;
  for (std::uint32_t i = 0; i < fleet_->size(); ++i) {
    const WorkerId worker(i);
    const routing::WorkerLoad& load = router_->loads().load(worker);
    const routing::LatencyModel& model = router_->forecaster().model(worker);
    const Duration timeout = StallWatch::timeout(model.step_ms(load.requests, load.context_tokens),
                                                 router_->forecaster().prefill_under_way_ms(worker));
    const bool stalled = stalls_.silence(worker, now) > timeout;
    // Without work a worker cannot stall. Then its health checks alone decide.
    if (fleet_->set_stalled(worker, stalled) && stalled) began.push_back(worker);
  }
  return began;
}

std::optional<routing::Decision> Dispatcher::leave_stalled(DispatchHandle handle, TimePoint now) {
  const DispatchedRequest& live = this->live(handle);
  const auto fleet = fleet_->views();
  bool elsewhere = false;
  for (std::uint32_t i = 0; i < fleet.size(); ++i) {
    const bool excluded = std::ranges::find(live.query.excluded, WorkerId(i)) != live.query.excluded.end();
    elsewhere = elsewhere || (fleet[i].available && WorkerId(i) != live.worker && !excluded);
  }
  if (!elsewhere || live.retries >= options_.max_retries || budget_.balance() < 1) return std::nullopt;
  return on_attempt_failed(handle, AttemptFailure::kStalled, "it stands still", now);
}

void Dispatcher::on_stream_broken(DispatchHandle handle, std::string_view problem, TimePoint now) {
  fleet_->on_failure(live(handle).worker, problem, now);
}

void Dispatcher::on_stream_error(DispatchHandle handle, std::string_view problem, TimePoint now) {
  fleet_->on_server_error(live(handle).worker, problem, now);
}

void Dispatcher::on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) {
  router_->on_usage(attempt, prompt_tokens, cached_tokens);
  const routing::RoutedRequest* const request = router_->find(attempt);
  if (request == nullptr) return;
  const std::uint64_t predicted = request->predicted_cached_tokens;
  ++counters_.usage_reports;
  counters_.prompt_tokens += prompt_tokens;
  counters_.predicted_cached_tokens += predicted;
  counters_.cached_tokens += cached_tokens;
  counters_.cached_tokens_absolute_error +=
      predicted > cached_tokens ? predicted - cached_tokens : cached_tokens - predicted;
}

void Dispatcher::finish(DispatchHandle handle, Outcome outcome, TimePoint now) {
  DispatchedRequest& ended = live(handle);
  take_back(ended);
  router_->on_finished(ended.attempt, outcome == Outcome::kCompleted, now);
  counters_.by_worker[ended.worker.value()].add(outcome);
  if (outcome == Outcome::kCompleted || outcome == Outcome::kRefused) fleet_->on_answer(ended.worker, now);
  live_.erase(handle);
}

}  // namespace kvist::dispatch
