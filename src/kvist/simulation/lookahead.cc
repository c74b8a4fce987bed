#include "kvist/simulation/lookahead.h"

#include <algorithm>

namespace kvist::simulation {
namespace {

bool is_input(EventKind kind) {
  return kind == EventKind::kRequestAtWorker || kind == EventKind::kAbortAtWorker || kind == EventKind::kWorkerWake;
}

}  // namespace

Lookahead::Lookahead(const spec::SimulationSpec& spec, std::size_t workers)
    : worker_hop_(spec.worker_hop),
      refusal_(2 * spec.worker_hop),
      client_gone_(spec.client_hop + spec.worker_hop),
      from_client_(spec.client_hop + spec.way_in + spec.gateway_time + spec.worker_hop),
      inputs_(workers) {}

void Lookahead::on_scheduled(TimePoint at, const Event& event) {
  if (is_input(event.kind)) ++inputs_[event.worker.value()];
  switch (event.kind) {
    // Steps and what follows from them: until() counts on these at any time.
    case EventKind::kLoadWakeup:
    case EventKind::kRefusalAtClient:
    case EventKind::kStepAtClient:
    case EventKind::kStepAtGateway:
    case EventKind::kKvEventsAtGateway:
    case EventKind::kWorkerTimer:
    case EventKind::kWorkerWake:     // is_input()
    case EventKind::kAbortAtWorker:  // likewise
      return;
    case EventKind::kClientDeadline:
      return causes_.push({.reaches = at + client_gone_, .at = at});
    case EventKind::kRequestAtWorker:  // and is_input()
      return causes_.push({.reaches = at + refusal_, .at = at});
    case EventKind::kRequestAtGateway:
    case EventKind::kClientGoneAtGateway:
    case EventKind::kGatewayDeadline:
    case EventKind::kLookAtHeld:
    case EventKind::kPeersDue:
    case EventKind::kPeerMessage:
    case EventKind::kRefusalAtGateway:
    case EventKind::kWorkerLostAtGateway:
    case EventKind::kWorkerBackAtGateway:
      return causes_.push({.reaches = at + worker_hop_, .at = at});
    case EventKind::kHealthCheck:
    case EventKind::kWorkerChange:
    case EventKind::kWorkerBack:
    case EventKind::kTimeline:
    case EventKind::kSnapshot:
    case EventKind::kDrainTimeout:
      return causes_.push({.reaches = at, .at = at});
  }
}

void Lookahead::on_handled(const Event& event) {
  if (is_input(event.kind)) --inputs_[event.worker.value()];
}

TimePoint Lookahead::until(TimePoint now, bool gateway_holds) {
  while (!causes_.empty() && causes_.top().at < now) causes_.pop();
  const TimePoint any_step = now + (gateway_holds ? worker_hop_ : from_client_);
  return causes_.empty() ? any_step : std::min(any_step, causes_.top().reaches);
}

}  // namespace kvist::simulation
