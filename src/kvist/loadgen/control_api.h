// The load generator's HTTP interface: start, stop, status, metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/net/http_server.h"
#include "kvist/net/http_types.h"

namespace kvist::loadgen {

/// Body of POST /start.
struct StartCommand {
  std::uint32_t concurrency = 0;
  std::optional<std::uint64_t> seed;  ///< absent: the workload's own
};

/// {"concurrency":N,"seed":S}; an unknown key is an error.
[[nodiscard]] Result<StartCommand> parse_start_command(std::string_view body);
/// {"drain":true|false}, or an empty body for true.
[[nodiscard]] Result<bool> parse_stop_command(std::string_view body);

/// What the interface can do to the service.
struct ControlActions {
  std::function<Result<void>(const StartCommand&)> start;
  std::function<void(bool drain, std::function<void()> stopped)> stop;
  std::function<std::string()> status;   ///< JSON
  std::function<std::string()> metrics;  ///< Prometheus text
};

/// Routes requests: GET /status, POST /start, POST /stop (answered when nothing is in flight any more), GET /metrics.
/// Commands answer with the status that follows them. Loop thread only.
class ControlApi {
 public:
  explicit ControlApi(ControlActions actions);
  void handle(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange);

 private:
  void start(const net::HttpRequest& request, net::HttpExchange& exchange);
  void stop(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange);

  /// Shared with answers that wait for a stop to end: the interface may be gone by then.
  std::shared_ptr<const ControlActions> actions_;
};

}  // namespace kvist::loadgen
