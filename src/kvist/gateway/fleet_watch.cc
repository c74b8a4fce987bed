#include "kvist/gateway/fleet_watch.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "kvist/gateway/log_component.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

constexpr auto kLookPeriod = std::chrono::milliseconds(100);

}  // namespace

FleetWatch::FleetWatch(net::EventLoop& loop, ModelParts& parts)
    : parts_(&parts),
      occupants_(parts.fleet.size()),
      lost_(parts.fleet.size(), false),
      ejections_(parts.fleet.size()),
      health_(parts.fleet.size()),
      trust_(parts.fleet.size(), routing::CacheTrust::kPredicted),
      timer_(loop) {}

void FleetWatch::look() {
  for (std::uint32_t i = 0; i < parts_->fleet.size(); ++i) {
    const std::uint64_t occupants = parts_->fleet.worker(WorkerId(i)).occupants;
    if (std::exchange(occupants_[i], occupants) == occupants) continue;
    lost_[i] = false;
    ejections_[i] = {};
    health_[i] = {};
    trust_[i] = routing::CacheTrust::kPredicted;
  }
  look_for_stalls();
  parts_->channel.release();
  const TimePoint now = net::now();
  for (std::uint32_t i = 0; i < parts_->fleet.size(); ++i) {
    if (parts_->fleet.is_vacant(WorkerId(i))) continue;
    log_health(WorkerId(i), now);
    log_trust(WorkerId(i));
    log_ejection(WorkerId(i));
  }
  wait();
}

void FleetWatch::look_for_stalls() {
  const dispatch::Dispatcher::Findings found = parts_->dispatcher.check(net::now());
  for (const WorkerId id : found.stalled) {
    telemetry::log_warning(log_component::kFleet,
                           fmt::format("{} stands still: it has work and says nothing; no more is given to "
                                       "it",
                                       parts_->fleet.worker(id).name));
    parts_->doubt(id);
  }
  for (const WorkerId id : found.hung) {
    telemetry::log_warning(
        log_component::kFleet,
        fmt::format("{} still stands still: requests without an answer leave it", parts_->fleet.worker(id).name));
    parts_->on_each_proxy([id](Proxy& proxy) { proxy.on_worker_stalled(id); });
  }
  for (const WorkerId id : found.ask) parts_->doubt(id);
  if (!found.leave.empty())
    parts_->on_each_proxy([leaving = found.leave](Proxy& proxy) { proxy.on_worker_silent(leaving); });
  for (std::uint32_t i = 0; i < parts_->fleet.size(); ++i) {
    const dispatch::Fleet::Worker& worker = parts_->fleet.worker(WorkerId(i));
    const bool lost = worker.stalled && worker.health == dispatch::WorkerHealth::kUnhealthy;
    const bool was_lost = lost_[i];
    lost_[i] = lost;
    if (!lost || was_lost) continue;
    telemetry::log_error(log_component::kFleet,
                         fmt::format("{} stands still and is unhealthy: its requests are given up", worker.name));
    parts_->on_each_proxy([i](Proxy& proxy) { proxy.on_worker_lost(WorkerId(i)); });
  }
}

void FleetWatch::log_health(WorkerId id, TimePoint now) {
  const dispatch::Fleet::Worker& worker = parts_->fleet.worker(id);
  const std::optional<std::string> line = health_[id.value()].next_line(worker, now);
  if (!line) return;
  if (worker.health == dispatch::WorkerHealth::kHealthy) {
    telemetry::log_info(log_component::kFleet, *line);
  } else {
    telemetry::log_warning(log_component::kFleet, *line);
  }
}

void FleetWatch::log_trust(WorkerId id) {
  // Before a worker's first answer nothing is known about its cache, so nothing is logged.
  const dispatch::Fleet::Worker& worker = parts_->fleet.worker(id);
  if (worker.health != dispatch::WorkerHealth::kHealthy || !worker.answered) return;
  const routing::CacheTrustReport report = parts_->trust(id);
  routing::CacheTrust& last = trust_[id.value()];
  if (report.trust == last) return;
  const std::string text = fmt::format(
      "cache of {}: {} -> {} (cached tokens reported of those expected: by its events {:.2f}, by what was routed there "
      "{:.2f}{})",
      worker.name, to_string(last), to_string(report.trust), report.events_share, report.predicted_share,
      report.events_silent ? "; its events have stopped" : "");
  if (report.trust < last) {
    telemetry::log_warning(log_component::kFleet, text);
  } else {
    telemetry::log_info(log_component::kFleet, text);
  }
  last = report.trust;
}

void FleetWatch::log_ejection(WorkerId id) {
  using dispatch::Ejection;
  const dispatch::OutlierWatch::Worker& worker = parts_->dispatcher.outliers().worker(id);
  Ejections& last = ejections_[id.value()];
  const std::string& name = parts_->fleet.worker(id).name;
  if (worker.total_ejections() != last.number) {
    telemetry::log_warning(
        log_component::kFleet,
        fmt::format("{} is ejected for {} s by the rule {}; its last failure: {}: {}", name, to_seconds(worker.time),
                    to_string(worker.rule), to_string(worker.failure), worker.problem));
  } else if (worker.state != last.state && worker.state == Ejection::kIn) {
    telemetry::log_info(log_component::kFleet, fmt::format("{} answered well and is back", name));
  }
  last = {.number = worker.total_ejections(), .state = worker.state};
}

void FleetWatch::wait() {
  timer_.arm(net::now() + kLookPeriod, [this] { look(); });
}

}  // namespace kvist::gateway
