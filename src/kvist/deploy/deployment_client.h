// Accesses a running deployment over HTTP, independent of where its parts run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/deploy/deployer.h"
#include "kvist/deploy/until.h"
#include "kvist/deploy/worker_metrics.h"

namespace kvist::deploy {

/// One worker in the gateway's GET /admin/status.
struct GatewayWorkerStatus {
  std::string name;
  bool healthy = false;
  std::uint64_t in_flight = 0;
  std::uint64_t indexed_blocks = 0;
};

/// What is needed of that answer.
struct GatewayStatus {
  std::string mode;  ///< of the first model
  std::uint64_t in_flight = 0;
  std::vector<GatewayWorkerStatus> workers;
};

/// Unknown fields are ignored. Errors: kCorrupt if a required field is missing or of another kind.
[[nodiscard]] Result<GatewayStatus> parse_gateway_status(std::string_view json);

/// Blocking calls, for a thread without a loop. Of an endpoint without a listener for administration only the workers
/// that are known are asked. `alive` is called while waiting, so that the death of a process ends
/// the wait with the reason.
class DeploymentClient {
 public:
  DeploymentClient(Addresses addresses, std::function<Result<void>()> alive)
      : addresses_(std::move(addresses)), alive_(std::move(alive)) {}

  [[nodiscard]] const Addresses& addresses() const { return addresses_; }
  /// Sends what goes to the endpoint there from now on.
  void set_endpoint(const std::string& url) { addresses_.gateway.url = url; }

  /// See Deployer.
  [[nodiscard]] Result<void> await_ready(const Until& until) const;
  [[nodiscard]] Result<void> empty_caches(const Until& until) const;
  /// Waits until the endpoint has answered a request.
  [[nodiscard]] Result<void> await_answer(const Until& until) const;
  [[nodiscard]] Result<void> await_idle(const Until& until) const;
  [[nodiscard]] Result<void> set_routing_mode(spec::RoutingMode mode) const;
  [[nodiscard]] Result<std::vector<WorkerMetrics>> collect() const;
  [[nodiscard]] Result<GatewayStatus> gateway_status() const;

 private:
  [[nodiscard]] Result<void> ask_for_token(const PartAddress& part, const std::string& model, Duration timeout) const;
  [[nodiscard]] Result<void> check_fleet() const;
  [[nodiscard]] Result<void> check_index_empty() const;
  [[nodiscard]] Result<void> check_idle() const;

  Addresses addresses_;
  std::function<Result<void>()> alive_;
};

}  // namespace kvist::deploy
