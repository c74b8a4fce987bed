// Accesses a running deployment over HTTP, independent of where its parts run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/deploy/deployer.h"
#include "kvist/deploy/gateway_status.h"
#include "kvist/deploy/until.h"
#include "kvist/deploy/worker_metrics.h"

namespace kvist::deploy {

/// Blocking calls, for a thread without a loop. `alive` is called while waiting, so that the death of a process ends
/// the wait with the reason.
class DeploymentClient {
 public:
  DeploymentClient(Addresses addresses, std::function<Result<void>()> alive)
      : addresses_(std::move(addresses)), alive_(std::move(alive)) {}

  [[nodiscard]] const Addresses& addresses() const { return addresses_; }

  /// See Deployer.
  [[nodiscard]] Result<void> await_ready(const Until& until) const;
  [[nodiscard]] Result<void> await_idle(const Until& until) const;
  [[nodiscard]] Result<void> set_routing_mode(spec::RoutingMode mode) const;
  [[nodiscard]] Result<std::vector<WorkerMetrics>> collect() const;
  [[nodiscard]] Result<GatewayStatus> gateway_status() const;

 private:
  [[nodiscard]] Result<void> ask_for_token(const PartAddress& part, Duration timeout) const;
  [[nodiscard]] Result<void> check_fleet() const;
  [[nodiscard]] Result<void> check_index_empty() const;
  [[nodiscard]] Result<void> check_idle() const;

  Addresses addresses_;
  std::function<Result<void>()> alive_;
};

}  // namespace kvist::deploy
