// Everything one gateway is made of, as the admin endpoints and the metrics read it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kvist/dispatch/dispatcher.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/gateway/io_loop.h"
#include "kvist/gateway/kv_event_feed.h"
#include "kvist/gateway/proxy.h"
#include "kvist/gateway/tokenizer_check.h"
#include "kvist/gateway/worker_monitor.h"
#include "kvist/routing/router.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Owned by the service, wired by it in this order: later parts use earlier ones. Loop thread only.
struct GatewayParts {
  /// `text`: of the model that `gateway_spec` names; null: bytes.
  GatewayParts(net::EventLoop& loop, spec::GatewaySpec gateway_spec, std::uint64_t request_id_seed,
               std::shared_ptr<const text::ModelText> text = nullptr);
  /// Nobody may come any more: other threads end first.
  ~GatewayParts();
  GatewayParts(const GatewayParts&) = delete;
  GatewayParts& operator=(const GatewayParts&) = delete;

  /// The settings of a proxy and its client.
  [[nodiscard]] Proxy::Options proxy_options(std::uint64_t seed) const;
  [[nodiscard]] net::HttpClientOptions client_options() const;

  /// The worker's KV events are connected, whole and readable, of the configured block size, and not of another
  /// tokenizer.
  [[nodiscard]] bool events_exact(WorkerId worker) const;
  /// How well its cache is known.
  [[nodiscard]] routing::CacheTrustReport trust(WorkerId worker) const {
    return router.caches().report(worker, events_exact(worker));
  }
  /// Tells the fleet: to be called when either of the two may have changed.
  void update_events_exact(WorkerId worker) { fleet.set_events_exact(worker, events_exact(worker)); }
  /// Its event stream became whole or stopped being so: the worker may be gone, or another one.
  void on_events_changed(WorkerId worker);
  /// Tells the proxy and the fleet how the workers read prompts: to be called when one of them has told.
  void update_readings();
  /// Has every proxy called, each on its own loop: this one's now, the others' soon.
  void on_each_proxy(const std::function<void(Proxy&)>& work);
  /// Adds up what all proxies have counted; calls `then` on this loop, now or soon.
  void gather_reports(std::function<void(const ProxyReport&)> then);

  spec::GatewaySpec spec;
  net::HttpClient client;
  dispatch::Fleet fleet;
  routing::Router router;
  dispatch::Dispatcher dispatcher;
  PromptReader reader;
  LocalDesk desk;
  Proxy proxy;                                    ///< of this loop: takes requests where the gateway has one thread
  std::shared_ptr<RoutingThread> routing;         ///< this thread, as the others see it
  std::vector<std::unique_ptr<IoLoop>> io_loops;  ///< empty where the gateway has one thread
  std::vector<std::unique_ptr<TokenizerCheck>> tokenizers;  ///< by WorkerId
  std::vector<std::unique_ptr<WorkerMonitor>> monitors;     ///< by WorkerId
  std::vector<std::shared_ptr<KvEventFeed>> feeds;          ///< by WorkerId; null where the worker publishes no events
};

}  // namespace kvist::gateway
