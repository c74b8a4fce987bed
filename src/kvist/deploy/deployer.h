// The interface for deployments: start, await, reconfigure, read, stop.
#pragma once

#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/deploy/until.h"
#include "kvist/deploy/worker_metrics.h"
#include "kvist/net/http_client.h"
#include "kvist/spec/arm.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::deploy {

/// The address of one part of a running deployment.
struct PartAddress {
  std::string name;
  std::string url;                          ///< http://host:port
  std::string admin;                        ///< the same of its listener for administration
  std::string model = {};                   ///< that a worker serves; empty for the gateway
  net::ServerSettings server = {};          ///< of url
  net::ServerSettings administration = {};  ///< of admin
};

/// The addresses of a running deployment.
struct Addresses {
  std::vector<std::string> models;  ///< at least one; what measures a deployment uses the first
  PartAddress gateway;              ///< the endpoint that is measured; its `admin` is empty if it is no kvist gateway
  std::vector<PartAddress> workers;
};

/// Starts and controls deployments on one kind of platform; at present local processes. Every call blocks, at most as
/// long as its Until or a few seconds per part. Threads: one.
class Deployer {
 public:
  virtual ~Deployer() = default;

  /// Stops the present deployment, if any, and starts a new one, workers first. After an error nothing is left running.
  [[nodiscard]] virtual Result<void> apply(const spec::DeploymentSpec& deployment, const Until& until) = 0;
  /// Waits until the deployment is ready: every worker has generated a real token, the gateway sees all of them healthy
  /// and has relayed a real token too, and the prefix caches and the gateway's index were emptied after that.
  [[nodiscard]] virtual Result<void> await_ready(const Until& until) = 0;
  [[nodiscard]] virtual Result<void> set_routing_mode(spec::RoutingMode mode) = 0;
  /// Makes the deployment what the arm says.
  [[nodiscard]] virtual Result<void> enter(const spec::ArmSpec& arm, const Until& /*until*/) {
    return arm.mode ? set_routing_mode(*arm.mode) : Result<void>{};
  }
  /// Empties every prefix cache, and waits until the gateway's index is empty too.
  [[nodiscard]] virtual Result<void> empty_caches(const Until& until) = 0;
  /// One scrape per worker, in the order of the deployment; none of workers that are not known.
  [[nodiscard]] virtual Result<std::vector<WorkerMetrics>> collect() = 0;
  /// Waits until nothing is in flight, in the gateway and then in every worker.
  [[nodiscard]] virtual Result<void> await_idle(const Until& until) = 0;
  /// Returns an error if a part has died.
  [[nodiscard]] virtual Result<void> check_alive() = 0;
  [[nodiscard]] virtual const Addresses& addresses() const = 0;
  /// Ends everything that apply() started. Idempotent.
  virtual void stop() = 0;
};

}  // namespace kvist::deploy
