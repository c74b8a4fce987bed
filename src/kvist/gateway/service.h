// The gateway as a service: it serves the OpenAI API and routes requests to workers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/gateway/carrier.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"
#include "kvist/net/watched_files.h"
#include "kvist/spec/deployment.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

/// The file that settings were read from.
struct SettingsFile {
  /// Before it is read, so that no change is missed, however long the service takes to start.
  explicit SettingsFile(std::string name) : path(std::move(name)), before(net::WatchedFiles::stamps_of({path})) {}
  SettingsFile() = default;

  std::string path = {};  ///< empty: there is none
  net::FileStamps before = {};
};

/// By which way clients' requests come.
enum class Front : std::uint8_t {
  kListener,  ///< the service's own HTTP listener
  kCarriers,  ///< Service::handle(): proxies ask where requests are to go; there is no listener but administration's
};

/// Routing runs on the given loop. If `threads` is 1, the same loop takes requests and relays answers; otherwise so
/// many threads of the service do. KV events are received on threads of their own and applied on the loop's. Requires:
/// the service is destroyed before the loop, either from the loop's thread or while the loop does not run.
class Service {
 public:
  /// Listens, starts to monitor the workers and subscribes to their KV events. The routing mode is that of `spec`,
  /// unless KVIST_ROUTER_MODE or DYN_ROUTER_MODE is set. `file`: that `spec` was read from; its list of workers is
  /// followed when it changes.
  [[nodiscard]] static Result<std::unique_ptr<Service>> create(net::EventLoop& loop, spec::GatewaySpec spec,
                                                               SettingsFile file = {}, Front front = Front::kListener);
  virtual ~Service() = default;
  /// Requires: Front::kListener.
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// The port of /admin/* and /metrics.
  [[nodiscard]] virtual std::uint16_t admin_port() const = 0;
  /// A client's request that `carrier` takes to its worker. `exchange` gets what is not a worker's answer. Asks for
  /// keys and refuses paths as the listener does; what the gateway would translate goes to a worker as it is. Threads:
  /// the loop's.
  virtual void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
                      const std::shared_ptr<Carrier>& carrier) = 0;
  /// Whether /health answers 200. Threads: the loop's.
  [[nodiscard]] virtual bool is_ready() const = 0;
  /// Has `write` add to each page of metrics. Threads: the loop's.
  virtual void add_metrics(std::function<void(telemetry::MetricsPage&)> write) = 0;
  /// Reads the files that may change (keys, certificates) again, whether they have changed or not, within a second. No
  /// connection is closed, and a file that is not good changes nothing. Threads: the loop's.
  virtual void reload() = 0;
  /// From here on /health answers 503 and new requests are refused; the listeners stay open, so that both are seen.
  /// Those under way have `drain_timeout` to end, then they are broken off. When none is left, it calls `done` on the
  /// loop's thread; then the loop may be stopped. Requires: it is called once. Threads: the loop's.
  virtual void shut_down(std::function<void()> done = {}) = 0;
  /// Breaks off what is under way now. Requires: shut_down() was called. Threads: the loop's.
  virtual void end_now() = 0;
};

}  // namespace kvist::gateway
