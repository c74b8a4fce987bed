// A deployment as one object: start, await, reconfigure, read, stop.
#pragma once

#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/deploy/until.h"
#include "kvist/deploy/worker_metrics.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::deploy {

/// Where one part of a running deployment answers.
struct PartAddress {
  std::string name;
  std::string url;  ///< http://host:port
};

/// Where a running deployment answers.
struct Addresses {
  std::string model;
  PartAddress gateway;
  std::vector<PartAddress> workers;
};

/// Starts and drives deployments on one kind of ground: local processes today. One thread. Every call blocks, at most
/// as long as its Until or a few seconds per part.
class Deployer {
 public:
  virtual ~Deployer() = default;

  /// Starts a fresh deployment, workers first. Whatever ran before is stopped. On an error nothing is left running.
  [[nodiscard]] virtual Result<void> apply(const spec::DeploymentSpec& deployment, const Until& until) = 0;
  /// Ready means: every worker answered a real token itself, the gateway sees all of them healthy and answered a real
  /// token too, and the traces of that are gone from the prefix caches and the gateway's index.
  [[nodiscard]] virtual Result<void> await_ready(const Until& until) = 0;
  [[nodiscard]] virtual Result<void> set_routing_mode(spec::RoutingMode mode) = 0;
  /// One scrape per worker, in the order of the deployment.
  [[nodiscard]] virtual Result<std::vector<WorkerMetrics>> collect() = 0;
  /// Proves that nothing is in flight, in the gateway and then in every worker.
  [[nodiscard]] virtual Result<void> await_idle(const Until& until) = 0;
  /// An error where a part has died.
  [[nodiscard]] virtual Result<void> check_alive() = 0;
  [[nodiscard]] virtual const Addresses& addresses() const = 0;
  /// Ends everything that apply() started. Idempotent.
  virtual void stop() = 0;
};

}  // namespace kvist::deploy
