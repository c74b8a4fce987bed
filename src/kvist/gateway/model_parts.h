// All parts that serve one model. The admin endpoints and the metrics read them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/dispatch/dispatcher.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/dispatch/model_watch.h"
#include "kvist/dispatch/worker_places.h"
#include "kvist/gateway/io_loop.h"
#include "kvist/gateway/kv_events.h"
#include "kvist/gateway/proxy.h"
#include "kvist/gateway/shared_parts.h"
#include "kvist/gateway/tokenizer_check.h"
#include "kvist/gateway/worker_monitor.h"
#include "kvist/routing/router.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// One model's workers, routing and proxies. Later members use earlier ones. Threads: the loop's.
struct ModelParts {
  /// `text` belongs to the model that `model_spec` names; null: the byte tokenizer.
  /// `recording` records the requests; null: nothing is recorded. Requires: `gateway` outlives this object.
  ModelParts(SharedParts& gateway, ModelId id, spec::ServedModelSpec model_spec,
             std::shared_ptr<const text::ModelText> text = nullptr, std::unique_ptr<RecordWriter> recording = nullptr);
  /// Requires: no loop has a proxy of this model any more, so that no call arrives.
  ~ModelParts();
  ModelParts(const ModelParts&) = delete;
  ModelParts& operator=(const ModelParts&) = delete;

  /// Makes the monitor and the tokenizer check of the worker in this place. WorkerMonitor::start() starts them.
  /// Requires: `upstreams` and `fleet` have the worker.
  void watch(WorkerId worker);
  /// Passes the worker's configured limits on to the fleet.
  void configure_limits(WorkerId worker);
  /// A worker has taken a vacant place: makes it known to all parts and begins to watch it. Requires:
  /// WorkerPlaces::add() gave its name the place.
  void bring_in(WorkerId place, const spec::UpstreamSpec& worker, const net::ServerSettings& settings);
  /// The worker's requests have to leave it now. It is not watched from here on.
  void turn_out(WorkerId worker);
  /// Forgets the worker everywhere and leaves its place vacant, now or later. Requires: turn_out() was called, and no
  /// request is at the worker.
  void clear(WorkerId worker);

  /// The options of a proxy.
  [[nodiscard]] Proxy::Options proxy_options(std::uint64_t seed) const;
  /// What another loop has to know of this model as it is now.
  [[nodiscard]] IoLoop::Model for_loop() const;

  /// Whether the worker's KV events are connected, whole and readable, and have the configured block size and
  /// tokenizer.
  [[nodiscard]] bool events_exact(WorkerId worker) const;
  /// How well the worker's cache is known. Events that nobody asked for have not stopped.
  [[nodiscard]] routing::CacheTrustReport trust(WorkerId worker) const {
    routing::CacheTrustReport report = router.caches().report(worker, events_exact(worker));
    if (upstreams[worker.value()].kv_events.empty()) report.events_silent = false;
    return report;
  }
  /// Passes events_exact() on to the fleet. To be called whenever it may have changed.
  void update_events_exact(WorkerId worker) { fleet.set_events_exact(worker, events_exact(worker)); }
  /// The worker's event stream became whole, or stopped being so. The latter may mean that the worker is gone or has
  /// restarted.
  void on_events_changed(WorkerId worker);
  /// How the workers read prompts, as far as that is known.
  [[nodiscard]] FleetReadings readings() const;
  /// Passes on to the proxies and the fleet how the workers read prompts. To be called when that was found out for a
  /// worker.
  void update_readings();
  /// From here on requests may ask for the model under these further names, and no others.
  void set_aliases(std::vector<std::string> names);
  /// Whether the place has a worker that has not been told to leave.
  [[nodiscard]] bool is_watched(WorkerId worker) const { return monitors[worker.value()] != nullptr; }
  /// There is reason to doubt the worker's health. Does nothing if the worker is not watched any more.
  void doubt(WorkerId worker);
  /// Passes on to the fleet which workers serve the model and which adapters of it, and to the proxies which adapters
  /// there are.
  void update_models();
  /// A worker gave its list of models; empty: it has none. Informs the fleet.
  void on_models(WorkerId worker, const std::vector<dispatch::ServedModel>& list);
  /// Calls `work` with every proxy of the model, on the proxy's own loop: for this loop's proxy now, for the others'
  /// soon.
  void on_each_proxy(const std::function<void(Proxy&)>& work);
  /// Calls `then` on this loop, now or soon. Ensures: what the other loops had to tell until now has come before.
  void after_all_proxies(std::function<void()> then);
  /// The sum of what all proxies have counted, and the state of the KV events.
  struct Reports {
    ProxyReport proxies;
    KvEventsReport events;
  };
  /// Asks all threads and calls `then` on this loop, now or soon.
  void gather_reports(std::function<void(const Reports&)> then);

  SharedParts* shared;
  const ModelId model_id;
  spec::ServedModelSpec spec;
  dispatch::WorkerPlaces places;
  std::vector<spec::UpstreamSpec> upstreams;  ///< by WorkerId, as are all tables here; empty for a vacant place
  std::unique_ptr<RecordWriter> recorder;     ///< null: nothing is recorded
  dispatch::Fleet fleet;
  dispatch::ModelWatch models;
  std::shared_ptr<const std::vector<std::string>> adapters;  ///< of the model, that any worker has; null: none so far
  std::function<void()> on_adapters_changed = [] {};
  routing::Router router;
  dispatch::Dispatcher dispatcher;
  PromptReader reader;
  LocalChannel channel;
  Proxy proxy;                             ///< this loop's
  std::shared_ptr<RoutingThread> routing;  ///< this thread, as the other threads see it
  std::vector<std::unique_ptr<TokenizerCheck>>
      tokenizers;  ///< by WorkerId, as the next; null for a worker that is not watched
  std::vector<std::unique_ptr<WorkerMonitor>> monitors;
  KvEvents events;  ///< has a thread of its own if the gateway has several
};

}  // namespace kvist::gateway
