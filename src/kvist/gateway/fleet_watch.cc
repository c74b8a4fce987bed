#include "kvist/gateway/fleet_watch.h"

#include <fmt/format.h>

#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

constexpr std::string_view kComponent = "fleet";
constexpr auto kPeriod = std::chrono::milliseconds(250);

}  // namespace

FleetWatch::FleetWatch(net::EventLoop& loop, GatewayParts& parts)
    : parts_(&parts),
      lost_(parts.fleet.size(), false),
      trust_(parts.fleet.size(), routing::CacheTrust::kPredicted),
      timer_(loop) {}

void FleetWatch::look() {
  look_for_stalls();
  for (std::uint32_t i = 0; i < parts_->fleet.size(); ++i) log_trust(WorkerId(i));
  wait();
}

void FleetWatch::look_for_stalls() {
  for (const WorkerId id : parts_->dispatcher.check_stalls(net::now())) {
    telemetry::log_warning(kComponent, fmt::format("{} stands still: it has work and says nothing; no more is given to "
                                                   "it",
                                                   parts_->fleet.worker(id).name));
    parts_->on_each_proxy([id](Proxy& proxy) { proxy.on_worker_stalled(id); });
    parts_->monitors[id.value()]->doubt();
  }
  for (std::uint32_t i = 0; i < parts_->fleet.size(); ++i) {
    const dispatch::Fleet::Worker& worker = parts_->fleet.worker(WorkerId(i));
    const bool lost = worker.stalled && worker.health == dispatch::WorkerHealth::kUnhealthy;
    const bool was_lost = lost_[i];
    lost_[i] = lost;
    if (!lost || was_lost) continue;
    telemetry::log_error(kComponent,
                         fmt::format("{} stands still and is unhealthy: its requests are given up", worker.name));
    parts_->on_each_proxy([i](Proxy& proxy) { proxy.on_worker_lost(WorkerId(i)); });
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
    telemetry::log_warning(kComponent, text);
  } else {
    telemetry::log_info(kComponent, text);
  }
  last = report.trust;
}

void FleetWatch::wait() {
  timer_.arm(net::now() + kPeriod, [this] { look(); });
}

}  // namespace kvist::gateway
