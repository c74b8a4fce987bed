#include "kvist/simulation/work_ahead.h"

namespace kvist::simulation {

WorkAhead::WorkAhead(std::vector<SimulatedWorker>& workers, const GatewayGroup& gateways, Network& network)
    : lookahead_(network.spec(), workers.size()),
      workers_(&workers),
      gateways_(&gateways),
      network_(&network),
      thread_(workers.size() + kPrompts, *this) {}

// On either thread.
void WorkAhead::compute(std::uint32_t item, TimePoint at) {
  if (item < workers_->size()) return (*workers_)[item].compute_ahead(at);
  gateways_->read(*requests_[item - workers_->size()]);
}

void WorkAhead::on_scheduled(TimePoint at, const Event& event) {
  lookahead_.on_scheduled(at, event);
  if (event.kind == EventKind::kWorkerTimer) timers_.push({.at = at, .event = event});
  if (event.kind == EventKind::kRequestAtGateway) order_prompt(at, event);
}

void WorkAhead::order_certain(TimePoint now) {
  if (timers_.empty()) return;
  const TimePoint until = lookahead_.until(now, gateways_->holds());
  for (; !timers_.empty() && timers_.top().at < until; timers_.pop()) {
    const auto& [at, timer] = timers_.top();
    const std::uint32_t worker = timer.worker.value();
    // An engine that something else reaches before is computed when its instant comes.
    if (at < now || lookahead_.awaits_input(timer.worker) || !(*workers_)[worker].is_due_at(timer)) continue;
    orders_ += thread_.order(worker, at) ? 1 : 0;
  }
}

std::uint32_t WorkAhead::item_of_prompt(const Event& event) const {
  return static_cast<std::uint32_t>(workers_->size()) + static_cast<std::uint32_t>(event.subject % kPrompts);
}

void WorkAhead::order_prompt(TimePoint at, const Event& event) {
  const std::uint32_t item = item_of_prompt(event);
  if (thread_.is_ordered(item)) return;  // another one, whose work goes before
  requests_[event.subject % kPrompts] = &network_->request_of(event);
  orders_ += thread_.order(item, at) ? 1 : 0;
}

bool WorkAhead::take_back(const Event& event) {
  if (event.kind == EventKind::kWorkerTimer) {
    // A timer that was armed anew goes off too, perhaps at the same instant, and is ignored.
    const std::uint32_t worker = event.worker.value();
    return (*workers_)[worker].is_due_at(event) && thread_.take_back(worker);
  }
  const bool is_ordered = requests_[event.subject % kPrompts] == &network_->request_of(event);
  return is_ordered && thread_.take_back(item_of_prompt(event));
}

}  // namespace kvist::simulation
