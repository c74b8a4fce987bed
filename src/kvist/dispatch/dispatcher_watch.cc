// Finds workers that stall or are silent, and moves their requests away.
#include <algorithm>

#include "kvist/dispatch/dispatcher.h"

namespace kvist::dispatch {

Dispatcher::Findings Dispatcher::check(TimePoint now) {
  Findings findings;
  end_ejections(now);
  measure_prefill(now);
  live_.for_each_handle([&](DispatchHandle handle, DispatchedRequest& request) {
    if (!request.at_worker || request.paused) return;
    const routing::RoutedRequest* const routed = router_->find(request.attempt);
    if (routed == nullptr || routed->has_begun()) return;
    const SilenceWatch::Verdict verdict = silence_.judge(request.wait, request.worker, now);
    if (verdict == SilenceWatch::Verdict::kWait) return;
    if (verdict == SilenceWatch::Verdict::kLeave)
      findings.leave.push_back({.request = handle, .worker = request.worker});
    if (std::ranges::find(findings.ask, request.worker) == findings.ask.end()) findings.ask.push_back(request.worker);
  });
  check_stalls(findings, now);
  demand_.sample({.fleet = fleet_->views(),
                  .loads = router_->loads(),
                  .block_size = router_->block_size(),
                  .routed_prefill_ms = router_->forecaster().routed_prefill_ms(),
                  .has_no_room = [this](WorkerId worker) { return router_->forecaster().has_no_room(worker); }},
                 now);
  return findings;
}

void Dispatcher::check_stalls(Findings& findings, TimePoint now) {
  for (std::uint32_t i = 0; i < fleet_->size(); ++i) {
    const WorkerId worker(i);
    const routing::WorkerLoad& load = router_->loads().load(worker);
    const routing::LatencyModel& model = router_->forecaster().model(worker);
    const Duration timeout =
        StallWatch::timeout(model.step_ms(load.requests, load.context_tokens),
                            router_->forecaster().prefill_under_way_ms(worker), options_.silence_timeout);
    const Duration silence = stalls_.silence(worker, now);
    const bool stalled = silence > timeout || silence_.is_silent(worker);
    // Without work a worker cannot stall. Then its health checks alone decide.
    if (fleet_->set_stalled(worker, stalled, now) && stalled) findings.stalled.push_back(worker);
    if (silence <= StallWatch::kTimesIfAlive * timeout) {
      hung_[i] = {};
    } else if (may_leave_now(worker) && budget_.has_one(now)) {
      findings.hung.push_back(worker);
      hung_[i] = {.reported = fleet_->views().version()};
    }
  }
}

// Not at each look while there is no other one, and not at each change of the fleet where requests stay for other
// reasons: every report asks all of them.
bool Dispatcher::may_leave_now(WorkerId worker) const {
  const Hung& hung = hung_[worker.value()];
  if (hung.reported == 0) return true;
  const auto fleet = fleet_->views();
  if (!hung.keeps || hung.reported == fleet.version()) return false;
  const std::uint8_t own = fleet[worker.value()].group;
  for (std::uint32_t i = 0; i < fleet.size(); ++i)
    if (WorkerId(i) != worker && fleet[i].group != routing::WorkerView::kOutOfUse && fleet[i].group <= own) return true;
  return false;
}

// By the router's rule: the workers of the best group among those that have the adapter. None of them may be available
// by WorkerView::available, because workers without the adapter may be in a better group.
bool Dispatcher::can_go_elsewhere(const DispatchedRequest& live) const {
  const auto fleet = fleet_->views();
  const std::uint8_t group = routing::best_group(fleet, live.query.adapter);
  if (group == routing::WorkerView::kOutOfUse) return false;
  for (std::uint32_t i = 0; i < fleet.size(); ++i) {
    const bool excluded = std::ranges::find(live.query.excluded, WorkerId(i)) != live.query.excluded.end();
    const bool can_take = fleet[i].group == group && fleet[i].has_adapter(live.query.adapter);
    if (can_take && WorkerId(i) != live.worker && !excluded) return true;
  }
  return false;
}

std::optional<routing::Decision> Dispatcher::leave(DispatchHandle handle, AttemptFailure failure, TimePoint now,
                                                   std::uint32_t resumed_tokens) {
  DispatchedRequest& live = this->live(handle);
  if (live.carried) return std::nullopt;
  note_progress(live, resumed_tokens);
  const bool free = is_free(live, failure);
  if (!(free || live.retries < options_.max_retries) || options_.max_retries == 0) return std::nullopt;
  Hung& hung = hung_[live.worker.value()];
  if (!can_go_elsewhere(live)) {
    hung.keeps = true;  // it is asked again when there is another worker
    return std::nullopt;
  }
  if (!free && !budget_.has_one(now)) {
    hung = {};  // it is asked again when there is a retry
    return std::nullopt;
  }
  return on_attempt_failed(
      handle, failure,
      failure == AttemptFailure::kSilent ? "no sign of life within the predicted time" : "it stands still", now,
      resumed_tokens);
}

}  // namespace kvist::dispatch
