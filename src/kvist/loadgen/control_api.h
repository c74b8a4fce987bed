// The load generator's HTTP interface: start, stop, status, metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"
#include "kvist/net/http_types.h"
#include "kvist/net/path_table.h"
#include "kvist/net/tls.h"
#include "kvist/spec/deployment.h"
#include "kvist/workload/turn_source.h"

namespace kvist::loadgen {

/// Body of POST /start.
struct StartCommand {
  std::uint32_t concurrency = 0;
  std::optional<std::uint64_t> seed;  ///< absent: the workload's own
};

/// {"concurrency":N,"seed":S}; an unknown key is an error.
[[nodiscard]] Result<StartCommand> parse_start_command(std::string_view body);
/// Body of PATCH /load: {"concurrency":N,"max_start_rate":R} or {"rate":R,"max_in_flight":N}, each of them optional; an
/// unknown key is an error.
[[nodiscard]] Result<workload::LoadChange> parse_load_change(std::string_view body);
[[nodiscard]] std::string load_change_json(const workload::LoadChange& change);
/// Body of POST /stop: {"drain":true|false}, or an empty body for true.
[[nodiscard]] Result<bool> parse_stop_command(std::string_view body);

/// The service's functions that the interface calls.
struct ControlActions {
  std::function<Result<void>(const StartCommand&)> start;
  std::function<Result<void>(const workload::LoadChange&)> change;
  std::function<void(bool drain, std::function<void()> stopped)> stop;
  std::function<std::string()> status;   ///< JSON
  std::function<std::string()> metrics;  ///< Prometheus text
};

/// Handles GET /status, POST /start, PATCH /load, POST /stop (answered when nothing is in flight any more) and GET
/// /metrics. Commands are answered with the status after them. Threads: the loop's.
class ControlApi {
 public:
  explicit ControlApi(ControlActions actions);
  ControlApi(const ControlApi&) = delete;
  ControlApi& operator=(const ControlApi&) = delete;

  /// A listener for this interface, which has to outlive it.
  [[nodiscard]] Result<std::unique_ptr<net::HttpServer>> listen(net::EventLoop& loop, const spec::Endpoint& endpoint,
                                                                const std::shared_ptr<net::TlsServer>& tls);

  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
    paths_.handle(std::move(request), exchange);
  }

 private:
  [[nodiscard]] net::HttpResponse start(const net::HttpRequest& request);
  [[nodiscard]] net::HttpResponse change(const net::HttpRequest& request);
  void stop(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange);

  /// Shared with answers that wait for the end of a stop, because these may outlive the interface.
  std::shared_ptr<const ControlActions> actions_;
  net::PathTable paths_;
};

}  // namespace kvist::loadgen
