#include "kvist/gateway/discovery_metrics.h"

#include <string>

#include "kvist/net/event_loop.h"

namespace kvist::gateway {

void write_discovery_metrics(const KubernetesGroups& services, telemetry::MetricsPage& page) {
  const auto number = [](auto count) { return static_cast<double>(count); };
  for (const DiscoveryReport& report : services.reports()) {
    const telemetry::Labels labels{{"group", report.group}};
    for (const DiscoveryState state : kDiscoveryStates) {
      page.gauge("kvist_gateway_discovery_state", "1 for how current what the cluster said of a group's workers is",
                 report.state == state ? 1 : 0, {{"group", report.group}, {"state", std::string(to_string(state))}});
    }
    page.gauge("kvist_gateway_discovery_stale_seconds", "For how long the API server has told nothing; 0: it does",
               report.stale_since ? to_seconds(net::now() - *report.stale_since) : 0, labels);
    page.gauge("kvist_gateway_discovery_workers", "Workers that the group has by what the cluster said last",
               number(report.workers), labels);
    page.counter("kvist_gateway_discovery_lists_total", "Whole lists that the API server gave",
                 number(report.calls.lists), labels);
    page.counter("kvist_gateway_discovery_watches_total", "Watches that the API server answered",
                 number(report.calls.watches), labels);
    page.counter("kvist_gateway_discovery_expired_total",
                 "Versions too old to go on from (410), so that all was listed again", number(report.calls.expired),
                 labels);
    page.counter("kvist_gateway_discovery_failures_total", "Calls to the API server that failed",
                 number(report.calls.failures), labels);
    page.counter("kvist_gateway_discovery_unreadable_total", "Objects that could not be read and were left out",
                 number(report.unreadable), labels);
  }
}

}  // namespace kvist::gateway
