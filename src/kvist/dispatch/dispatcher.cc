#include "kvist/dispatch/dispatcher.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/base/check.h"

namespace kvist::dispatch {

Dispatcher::Dispatcher(Options options, Fleet& fleet, routing::Router& router)
    : options_(options), fleet_(&fleet), router_(&router), budget_(options.retry_budget) {
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
  Live live;
  live.query = {.request = last_id_,
                .name = profile.name,
                .prompt_tokens = profile.prompt_tokens,
                .blocks = profile.blocks,
                .session = profile.session,
                .excluded = {}};
  auto decision = router_->route(live.query, fleet_->views(), now);
  if (!decision) {
    counters_.without_worker.add(Outcome::kNoWorker);
    return std::unexpected(std::move(decision).error());
  }
  live.worker = decision->worker;
  live.predicted_cached_tokens = decision->predicted_cached_tokens;
  live_[last_id_] = std::move(live);
  return Ticket{.id = last_id_, .decision = std::move(*decision)};
}

Dispatcher::Live& Dispatcher::live(RequestId id) {
  Live* const found = live_.find(id);
  KVIST_CHECK(found != nullptr, "a request is told of before it ends, and ends once");
  return *found;
}

std::optional<routing::Decision> Dispatcher::on_attempt_failed(RequestId id, AttemptFailure failure,
                                                               std::string_view problem, TimePoint now) {
  Live& live = this->live(id);
  router_->on_finished(id, false, now);
  if (failure != AttemptFailure::kBackPressure) fleet_->on_failure(live.worker, problem, now);
  if (failure == AttemptFailure::kTimedOut) return std::nullopt;
  return retry(live, now);
}

std::optional<routing::Decision> Dispatcher::retry(Live& live, TimePoint now) {
  if (live.retries >= options_.max_retries) return std::nullopt;
  live.query.excluded.push_back(live.worker);
  auto decision = router_->route(live.query, fleet_->views(), now);
  if (!decision) return std::nullopt;
  // Asked only now: a retry that has nowhere to go costs nothing.
  if (!budget_.try_take(now)) {
    router_->on_finished(live.query.request, false, now);
    ++counters_.retries_over_budget;
    return std::nullopt;
  }
  ++live.retries;
  ++counters_.retries;
  live.worker = decision->worker;
  live.predicted_cached_tokens = decision->predicted_cached_tokens;
  return std::move(*decision);
}

void Dispatcher::on_stream_broken(RequestId id, std::string_view problem, TimePoint now) {
  fleet_->on_failure(live(id).worker, problem, now);
}

void Dispatcher::on_usage(RequestId id, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) {
  router_->on_usage(id, prompt_tokens, cached_tokens);
  const std::uint64_t predicted = live(id).predicted_cached_tokens;
  ++counters_.usage_reports;
  counters_.prompt_tokens += prompt_tokens;
  counters_.predicted_cached_tokens += predicted;
  counters_.cached_tokens += cached_tokens;
  counters_.cached_tokens_absolute_error +=
      predicted > cached_tokens ? predicted - cached_tokens : cached_tokens - predicted;
}

void Dispatcher::finish(RequestId id, Outcome outcome, TimePoint now) {
  const WorkerId worker = live(id).worker;
  router_->on_finished(id, outcome == Outcome::kCompleted, now);
  counters_.by_worker[worker.value()].add(outcome);
  live_.erase(id);
}

}  // namespace kvist::dispatch
