#include "kvist/dispatch/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::dispatch {

Dispatcher::Options Dispatcher::Options::of(const spec::ServedModelSpec& model, bool in_gateway) {
  return {.max_in_flight = model.max_in_flight,
          .max_retries = model.max_retries,
          .admission = model.admission.enabled.value_or(in_gateway) ? std::optional(model.admission) : std::nullopt,
          .hold = model.hold.enabled.value_or(in_gateway) ? std::optional(model.hold) : std::nullopt,
          .retry_budget = model.retry_budget,
          .ejection = model.ejection,
          .warm_up = model.warm_up,
          .scaling = model.scaling,
          .silence_timeout = model.silence_timeout};
}

Dispatcher::Dispatcher(const Options& options, Fleet& fleet, routing::Router& router)
    : options_(options),
      fleet_(&fleet),
      router_(&router),
      budget_(options.retry_budget),
      stalls_(fleet.size()),
      silence_(options.silence_timeout, fleet.size()),
      outliers_(options.ejection, fleet.size()),
      admission_(options.admission.value_or(spec::AdmissionSpec{}), router.forecaster(), fleet.size()),
      warm_up_(options.warm_up, fleet.size()),
      demand_(options.scaling),
      hung_(fleet.size()) {
  counters_.by_worker.resize(fleet.size());
  counters_.failures.resize(fleet.size());
  too_large_since_.resize(fleet.size());
}

Started Dispatcher::start(const RequestProfile& profile, TimePoint now) {
  if (!has_room()) {
    demand_.on_refused();
    return turn_away(admission_.refuse_in_flight(profile.admission, under_way()));
  }
  budget_.on_request(now);
  return *try_start(profile, std::nullopt, now, nullptr);
}

std::optional<Started> Dispatcher::try_start(const RequestProfile& profile, std::optional<TimePoint> came,
                                             TimePoint now, HoldCheck* hold) {
  last_id_ = RequestId(last_id_.value() + 1);
  DispatchedRequest request;
  request.query = {.request = last_id_,
                   .name = profile.name,
                   .prompt_tokens = profile.prompt_tokens,
                   .blocks = profile.blocks,
                   .otherwise = profile.otherwise,
                   .streams = profile.streams,
                   .choices = profile.choices,
                   .reads_cache = profile.reads_cache,
                   .session = profile.session,
                   .adapter = profile.adapter,
                   .excluded = profile.excluded,
                   .fallbacks = profile.fallbacks};
  request.prompt_tokens = profile.prompt_tokens;
  request.streams = profile.streams;
  request.generates = profile.generates;
  request.carried = profile.carried;
  request.was_held = came.has_value();
  std::optional<WaitAdmission::Check> check;
  if (options_.admission && !profile.admission.exempt) check = admission_.check(profile.admission, now, came);
  routing::AdmissionCheck* admits = check ? &*check : nullptr;
  if (hold != nullptr) {
    hold->also(admits);
    admits = hold;
  }
  const auto decision = route(profile, request.query, now, admits);
  if (!decision) {
    const bool waits = decision.error().code == ErrorCode::kResourceExhausted;
    if (waits && hold != nullptr && hold->holds()) return std::nullopt;
    if (waits && !came) demand_.on_refused();
    return turn_away(waits ? admission_.refuse(*check) : Refusal(decision.error(), Outcome::kNoWorker));
  }
  request.tenant = profile.admission.tenant;
  charge(request, profile.prompt_tokens + router_->forecaster().output_lengths().mean_tokens(), now);
  give(request, *decision, now);
  if (!came) demand_.on_started();
  return Ticket{
      .handle = live_.insert(std::move(request)), .decision = *decision, .held = came ? now - *came : Duration(0)};
}

std::unexpected<Refusal> Dispatcher::turn_away(Refusal refusal) {
  counters_.without_worker.add(refusal.outcome);
  return std::unexpected(std::move(refusal));
}

DispatchedRequest& Dispatcher::live(DispatchHandle handle) {
  DispatchedRequest* const found = live_.find(handle);
  KVIST_CHECK(found != nullptr, "a request is told of before it ends, and ends once");
  return *found;
}

// A request that may be carried out only once does not try an ejected worker out, unless there is no other.
Result<routing::Decision> Dispatcher::route(const RequestProfile& profile, routing::RouteQuery& query, TimePoint now,
                                            routing::AdmissionCheck* check) {
  end_ejections(now);
  if (!profile.repeatable) {
    for (std::uint32_t i = 0; i < fleet_->size(); ++i)
      if (fleet_->worker(WorkerId(i)).ejection == Ejection::kTrial) query.excluded.emplace_back(i);
    auto decision = router_->route(query, fleet_->views(), now, check);
    if (decision || query.excluded.size() == profile.excluded.size()) return decision;
    if (decision.error().code == ErrorCode::kResourceExhausted) return decision;  // there are others, which are busy
    query.excluded = profile.excluded;
  }
  return router_->route(query, fleet_->views(), now, check);
}

// Charges an estimate at first; the end of the request corrects it.
void Dispatcher::charge(DispatchedRequest& request, double tokens, TimePoint now) {
  if (!options_.admission) return;
  admission_.charge(request.tenant, tokens - request.charged_tokens, now);
  request.charged_tokens = tokens;
}

std::optional<routing::Decision> Dispatcher::on_attempt_failed(DispatchHandle handle, AttemptFailure failure,
                                                               std::string_view problem, TimePoint now,
                                                               std::uint32_t resumed_tokens) {
  DispatchedRequest& live = this->live(handle);
  judge_attempt(live, failure, problem, now);
  note_progress(live, resumed_tokens);
  const bool free = is_free(live, failure);
  take_back(live, now);
  if (resumed_tokens > 0) {
    router_->on_failed(live.attempt, fmt::format("{} behind {} tokens of the answer: {}", to_string(failure),
                                                 resumed_tokens, problem));
    // A worker whose answer broke off had accepted the request, so the refusals before it no longer matter.
    if (const auto* const routed = router_->find(live.attempt); routed != nullptr && routed->has_begun())
      live.query.excluded.clear();
    live.query.prompt_tokens = live.prompt_tokens + resumed_tokens;
  } else {
    router_->on_failed(live.attempt, fmt::format("{}: {}", to_string(failure), problem));
  }
  router_->on_finished(live.attempt, false, now);
  if (failure == AttemptFailure::kTimedOut) return std::nullopt;
  return retry(handle, free, now);
}

std::optional<routing::Decision> Dispatcher::on_served_by(DispatchHandle handle, WorkerId worker,
                                                          std::string_view problem, TimePoint now) {
  DispatchedRequest& live = this->live(handle);
  // The router sees only this worker, as usable, because the proxy has decided.
  const auto views = fleet_->views();
  std::vector<routing::WorkerView> fleet(views.begin(), views.end());
  // Of a worker that is leaving, everything may be forgotten at any time.
  if (worker.value() >= fleet.size() || fleet_->worker(worker).vacant || fleet_->worker(worker).retired)
    return std::nullopt;
  for (routing::WorkerView& view : fleet) view.available = false;
  fleet[worker.value()].available = true;
  fleet[worker.value()].group = 0;
  live.query.excluded.clear();
  live.query.adapter.clear();
  judge_attempt(live, AttemptFailure::kTransport, problem, now);
  take_back(live, now);
  router_->on_failed(live.attempt, fmt::format("{}: {}", to_string(AttemptFailure::kTransport), problem));
  router_->on_finished(live.attempt, false, now);
  auto decision = router_->route(live.query, fleet, now);
  KVIST_CHECK(decision.has_value(), "the router takes the only worker that can be used");
  give(live, *decision, now);
  return std::move(*decision);
}

void Dispatcher::judge_attempt(DispatchedRequest& live, AttemptFailure failure, std::string_view problem,
                               TimePoint now) {
  const WorkerId worker = live.worker;
  ++counters_.failures[worker.value()][static_cast<std::size_t>(failure)];
  switch (failure) {
    case AttemptFailure::kTransport:
      // Health checks find out that a worker is gone. This rule is for a worker that they find well each time.
      if (fleet_->worker(worker).health == WorkerHealth::kHealthy)
        on_bad_answer(worker, failure, problem, live.wait.began, has_begun(live), now);
      fleet_->on_failure(worker, problem, now);
      return;
    case AttemptFailure::kTimedOut:
      // One that was held may come to its worker with less time than was forecast for it.
      if (!live.was_held || now - live.wait.began >= live.wait.patience) fleet_->on_failure(worker, problem, now);
      return;
    case AttemptFailure::kStalled:
      // If its health checks are good, the worker counts as well again once it has no work. Nothing else would keep the
      // next requests away from it.
      if (fleet_->worker(worker).health == WorkerHealth::kHealthy)
        on_bad_answer(worker, failure, problem, live.wait.began, has_begun(live), now);
      return;
    case AttemptFailure::kSilent:
    case AttemptFailure::kRemoved:
      return;
    case AttemptFailure::kUnauthorized:
    case AttemptFailure::kWrongModel:
    case AttemptFailure::kTooLarge:
      if (failure == AttemptFailure::kTooLarge) note_too_large(worker, now);
      live.disputes.push_back({.worker = worker,
                               .failure = failure,
                               .problem = std::string(problem),
                               .began = live.wait.began,
                               .tried_out = live.tries_out});
      break;
    case AttemptFailure::kServerError:
    case AttemptFailure::kGarbage:
      on_bad_answer(worker, failure, problem, live.wait.began, has_begun(live), now);
      fleet_->on_server_error(worker, problem, now);
      break;
    case AttemptFailure::kNotResumable:
    case AttemptFailure::kNoAdapter:
      break;
    case AttemptFailure::kBackPressure:
      if (is_idle_refusal(worker, now)) on_bad_answer(worker, failure, problem, live.wait.began, has_begun(live), now);
      break;
  }
  silence_.on_life(worker, now);
}

void Dispatcher::note_too_large(WorkerId worker, TimePoint now) {
  constexpr Duration kMemory = std::chrono::minutes(10);
  TimePoint& since = too_large_since_[worker.value()];
  if (since == TimePoint{} || now - since > kMemory) since = now;
}

// A full worker has work, or had some a moment ago. One that says it is full and has none is an outlier.
bool Dispatcher::is_idle_refusal(WorkerId id, TimePoint now) const {
  constexpr auto kMoment = std::chrono::seconds(10);
  const std::optional<TimePoint>& answered = fleet_->worker(id).answered;
  return router_->loads().load(id).decoding == 0 && (!answered || now - *answered > kMoment);
}

// An answer that goes on from worker to worker is not what they fail of.
void Dispatcher::note_progress(DispatchedRequest& live, std::uint32_t resumed_tokens) {
  constexpr std::uint32_t kProgress = 32;
  if (resumed_tokens < live.resumed_tokens + kProgress) return;
  live.resumed_tokens = resumed_tokens;
  live.free_retries = 0;
}

// Retries are paid for so that they do not overload a failing fleet. These retries cannot: there is at most one for
// each request that was at the worker when the fault was found, or a refusal has cost no worker anything. A request
// under which one worker after the other fails may be the reason, and take the whole fleet down.
bool Dispatcher::is_free(const DispatchedRequest& live, AttemptFailure failure) const {
  const Fleet::Worker& worker = fleet_->worker(live.worker);
  if (failure == AttemptFailure::kNoAdapter || worker.retired) return true;
  // An answer that is too large was computed all the same. So it is paid, but for those that were under way when the
  // first one came: of a worker that answers everything so, they may be many more than the budget has.
  const bool is_later = failure == AttemptFailure::kTooLarge && live.wait.began > too_large_since_[live.worker.value()];
  if (is_disputed(failure) && !is_later) return live.disputes.size() == 1;
  if (live.free_retries >= options_.max_retries) return false;
  if (live.tries_out) return true;
  if (worker.ejection == Ejection::kOut && live.wait.began <= outliers_.worker(live.worker).since) return true;
  const bool is_dead = failure == AttemptFailure::kTransport || failure == AttemptFailure::kSilent;
  const bool is_out = worker.health != WorkerHealth::kHealthy || worker.stalled;
  return is_dead && is_out && live.wait.began <= worker.found;
}

std::optional<routing::Decision> Dispatcher::retry(DispatchHandle handle, bool free, TimePoint now) {
  DispatchedRequest& live = this->live(handle);
  if (live.carried || options_.max_retries == 0 || (!free && live.retries >= options_.max_retries)) return std::nullopt;
  live.query.excluded.push_back(live.worker);
  end_ejections(now);
  // It is asked before the router, which keeps where it sent a session, and paid once there is a worker to go to.
  if (!free && !budget_.has_one(now)) {
    if (can_go_elsewhere(live)) ++counters_.retries_over_budget;
    return std::nullopt;
  }
  auto decision = router_->route(live.query, fleet_->views(), now);
  if (!decision) return std::nullopt;
  if (!free) KVIST_CHECK(budget_.try_take(now), "what has one at an instant has one to take");
  ++(free ? counters_.free_retries : counters_.paid_retries);
  ++(free ? live.free_retries : live.retries);
  give(live, *decision, now);
  if (!live.disputes.empty()) disputed_.push_back({.attempt = live.attempt, .request = handle});
  return std::move(*decision);
}

void Dispatcher::give(DispatchedRequest& request, const routing::Decision& decision, TimePoint now) {
  request.worker = decision.worker;
  request.attempt = decision.request;
  request.at_worker = true;
  request.wait = silence_.begin(decision.forecast_ttft_ms, now);
  if (Hung& hung = hung_[request.worker.value()]; hung.reported != 0) hung.keeps = true;  // there was no better one
  if (request.streams) stalls_.on_attempt(request.worker, now);
  request.tries_out = outliers_.on_given(request.worker, now);
  if (request.tries_out) apply_ejection(request.worker);
}

void Dispatcher::take_back(DispatchedRequest& request, TimePoint now) {
  const bool paused = std::exchange(request.paused, false);
  if (std::exchange(request.at_worker, false) && request.streams && !paused) stalls_.on_left(request.worker);
  if (std::exchange(request.tries_out, false) && outliers_.on_trial_void(request.worker, now))
    apply_ejection(request.worker);
  if (!disputed_.empty())  // its own disputes may be forgotten by now, with their workers
    std::erase_if(disputed_, [&](const Disputed& d) { return d.attempt == request.attempt; });
}

void Dispatcher::apply_ejection(WorkerId worker) {
  fleet_->set_ejection(worker, outliers_.worker(worker).state);
}

void Dispatcher::end_ejections(TimePoint now) {
  if (!outliers_.is_due(now)) return;
  for (const WorkerId worker : outliers_.poll(now)) apply_ejection(worker);
}

void Dispatcher::on_good_answer(WorkerId worker, bool complete, TimePoint now) {
  silence_.on_life(worker, now);
  if (outliers_.on_good(worker, complete, now)) apply_ejection(worker);
}

void Dispatcher::on_bad_answer(WorkerId worker, AttemptFailure failure, std::string_view problem, TimePoint began,
                               bool broke_off, TimePoint now) {
  if (outliers_.on_failure(worker, failure, problem, began, fleet_->usable(), now, broke_off)) apply_ejection(worker);
}

bool Dispatcher::has_begun(const DispatchedRequest& request) const {
  const routing::RoutedRequest* const attempt = router_->find(request.attempt);
  return attempt != nullptr && attempt->has_begun();
}

// Another worker took the request, so it was not the client's fault that the first ones refused it. A failed trial was
// taken for void until now, so that the worker may be on its next one: this is no old news to it.
void Dispatcher::settle(DispatchedRequest& request, TimePoint now) {
  for (const Dispute& dispute : std::exchange(request.disputes, {}))
    on_bad_answer(dispute.worker, dispute.failure, dispute.problem, dispute.tried_out ? now : dispute.began, false,
                  now);
}

void Dispatcher::settle_disputes_of(routing::RequestHandle attempt, TimePoint now) {
  if (disputed_.empty()) return;
  const auto found = std::ranges::find(disputed_, attempt, &Disputed::attempt);
  if (found == disputed_.end()) return;
  DispatchedRequest& request = live(found->request);
  disputed_.erase(found);
  settle(request, now);
}

void Dispatcher::warm_up(WorkerId worker) {
  warm_up_.begin(worker);
  fleet_->set_most_waiting(worker, warm_up_.most_waiting(worker));
}

void Dispatcher::on_warm_answer(WorkerId worker) {
  if (warm_up_.on_answer(worker)) fleet_->set_most_waiting(worker, warm_up_.most_waiting(worker));
}

void Dispatcher::on_worker_restarted(WorkerId worker, TimePoint now) {
  warm_up(worker);
  if (outliers_.on_restarted(worker, now)) apply_ejection(worker);
  // Requests that it failed before may come back to it. Otherwise a fleet whose workers are restarted one after the
  // other, faster than a queued answer gets its next token, runs out of workers for that answer.
  live_.for_each([worker](DispatchedRequest& request) { std::erase(request.query.excluded, worker); });
}

void Dispatcher::on_worker_removed(WorkerId worker, TimePoint now) {
  fleet_->retire(worker, now);
}

bool Dispatcher::uses(WorkerId worker) {
  bool found = false;
  live_.for_each([&](const DispatchedRequest& request) { found = found || request.worker == worker; });
  return found;
}

void Dispatcher::forget(WorkerId worker) {
  // Requests that are elsewhere by now would hold what the old worker did against the new one.
  live_.for_each([&](DispatchedRequest& request) {
    std::erase(request.query.excluded, worker);
    std::erase_if(request.disputes, [&](const Dispute& dispute) { return dispute.worker == worker; });
  });
  KVIST_CHECK(!stalls_.has_work(worker), "a worker is forgotten when no request is left there");
  silence_.forget(worker);
  outliers_.forget(worker);
  admission_.forget(worker);
  warm_up_.forget(worker);
  hung_.at(worker.value()) = {};
  counters_.by_worker[worker.value()] = {};
  counters_.failures[worker.value()] = {};
  too_large_since_[worker.value()] = {};
  router_->forget(worker);
  fleet_->vacate(worker);
}

void Dispatcher::on_paused(DispatchHandle handle) {
  DispatchedRequest& request = live(handle);
  if (!request.at_worker || !request.streams || std::exchange(request.paused, true)) return;
  stalls_.on_left(request.worker);
}

// While the answer was not read, the worker may have had no other that showed progress.
void Dispatcher::on_resumed(DispatchHandle handle, TimePoint now) {
  DispatchedRequest& request = live(handle);
  if (!std::exchange(request.paused, false)) return;
  stalls_.on_attempt(request.worker, now);
  stalls_.on_progress(request.worker, now);
}

void Dispatcher::on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer, TimePoint now) {
  if (const routing::RoutedRequest* const request = router_->find(attempt)) {
    stalls_.on_progress(request->worker, now);
    silence_.on_life(request->worker, now);
    on_warm_answer(request->worker);
  }
  router_->on_whole_answer(attempt, answer, now);
}

void Dispatcher::on_first_token(routing::RequestHandle attempt, TimePoint now) {
  router_->on_first_token(attempt, now);
  const routing::RoutedRequest* const request = router_->find(attempt);
  if (request == nullptr) return;
  stalls_.on_progress(request->worker, now);
  on_warm_answer(request->worker);
  on_good_answer(request->worker, false, now);
  settle_disputes_of(attempt, now);
  // This is more than an error of the forecast can explain. So the request waited for a slot, and the worker has fewer
  // slots than assumed.
  constexpr double kTimes = 3;
  constexpr double kBeyondMs = 1'000;
  const routing::FirstTokenExpectation& expected = request->first_token;
  if (options_.admission && expected.in_order)
    admission_.on_first_token(expected.wait_ms, expected.ttft_ms, to_milliseconds(now - expected.routed));
  const bool late = to_milliseconds(now - expected.routed) > kTimes * expected.ttft_ms + kBeyondMs;
  fleet_->on_first_token(request->worker, router_->loads().load(request->worker).decoding, late);
}

void Dispatcher::on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint now) {
  const auto worker = router_->on_progress(attempt, tokens, now);
  if (!worker) return;
  stalls_.on_progress(*worker, now);
  silence_.on_life(*worker, now);
}

void Dispatcher::on_run_step(WorkerId worker, TimePoint now) {
  if (router_->on_run_step(worker, now) == 0) return;
  stalls_.on_progress(worker, now);
  silence_.on_life(worker, now);
}

void Dispatcher::on_stream_broken(DispatchHandle handle, std::string_view problem, TimePoint now) {
  const DispatchedRequest& live = this->live(handle);
  // What a removal breaks off is not the worker's failure.
  if (!fleet_->worker(live.worker).retired) {
    on_bad_answer(live.worker, AttemptFailure::kTransport, problem, live.wait.began, true, now);
    fleet_->on_failure(live.worker, problem, now);
  }
  router_->on_failed(live.attempt, problem);
}

void Dispatcher::on_stream_error(DispatchHandle handle, std::string_view problem, TimePoint now) {
  const DispatchedRequest& live = this->live(handle);
  on_bad_answer(live.worker, AttemptFailure::kServerError, problem, live.wait.began, true, now);
  fleet_->on_server_error(live.worker, problem, now);
  router_->on_failed(live.attempt, problem);
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
  if (outcome == Outcome::kCompleted) {
    on_good_answer(ended.worker, true, now);
    settle_disputes_of(ended.attempt, now);
  } else if (outcome == Outcome::kRefused) {
    silence_.on_life(ended.worker, now);
  }
  take_back(ended, now);
  router_->leave_run(ended.attempt);
  if (const routing::RoutedRequest* const routed = router_->find(ended.attempt)) {
    charge(ended, ended.prompt_tokens + static_cast<double>(routed->output_tokens), now);
    // No first token was reported, but an answer that has ended had one.
    if (outcome == Outcome::kCompleted && !routed->has_begun() && ended.generates) on_warm_answer(ended.worker);
  }
  // If no failure was reported, the outcome says how the request ended, in the same word as in metrics and logs.
  if (outcome == Outcome::kClientGone || outcome == Outcome::kRefused)
    router_->on_failed(ended.attempt, to_string(outcome));
  router_->on_finished(ended.attempt, outcome == Outcome::kCompleted, now);
  counters_.by_worker[ended.worker.value()].add(outcome);
  if (outcome == Outcome::kCompleted || outcome == Outcome::kRefused) fleet_->on_answer(ended.worker, now);
  demand_.on_ended();
  live_.erase(handle);
}

}  // namespace kvist::dispatch
