// Everything one gateway is made of, as the admin endpoints and the metrics read it.
#pragma once

#include <memory>
#include <vector>

#include "kvist/dispatch/dispatcher.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/gateway/kv_event_feed.h"
#include "kvist/gateway/proxy.h"
#include "kvist/gateway/worker_monitor.h"
#include "kvist/routing/router.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Owned by the service, wired by it in this order: later parts use earlier ones. Loop thread only.
struct GatewayParts {
  GatewayParts(net::EventLoop& loop, spec::GatewaySpec gateway_spec, std::uint64_t request_id_seed);

  spec::GatewaySpec spec;
  net::HttpClient client;
  dispatch::Fleet fleet;
  routing::Router router;
  dispatch::Dispatcher dispatcher;
  Proxy proxy;
  std::vector<std::unique_ptr<WorkerMonitor>> monitors;  ///< by WorkerId
  std::vector<std::shared_ptr<KvEventFeed>> feeds;       ///< by WorkerId; null where the worker publishes no events
};

}  // namespace kvist::gateway
