// Deployments as processes on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kvist/deploy/child_process.h"
#include "kvist/deploy/deployer.h"
#include "kvist/deploy/deployment_client.h"

namespace kvist::deploy {

struct LocalDeployerOptions {
  std::string run_directory;                         ///< folder for spec files and logs; created if it does not exist
  std::string executable = "/proc/self/exe";         ///< run as `EXE worker -f FILE` and `EXE gateway -f FILE`
  Duration stop_timeout = std::chrono::seconds(10);  ///< between SIGTERM and SIGKILL; a part drains for 5 s
};

/// Every part is a child process of the thread that calls apply(), and is killed when that thread ends. The destructor
/// stops all parts.
class LocalDeployer final : public Deployer {
 public:
  explicit LocalDeployer(LocalDeployerOptions options) : options_(std::move(options)) {}
  ~LocalDeployer() override { stop(); }
  LocalDeployer(const LocalDeployer&) = delete;
  LocalDeployer& operator=(const LocalDeployer&) = delete;

  [[nodiscard]] Result<void> apply(const spec::DeploymentSpec& deployment, const Until& until) override;
  [[nodiscard]] Result<void> await_ready(const Until& until) override;
  [[nodiscard]] Result<void> set_routing_mode(spec::RoutingMode mode) override;
  [[nodiscard]] Result<void> empty_caches(const Until& until) override;
  [[nodiscard]] Result<std::vector<WorkerMetrics>> collect() override;
  [[nodiscard]] Result<void> await_idle(const Until& until) override;
  [[nodiscard]] Result<void> check_alive() override;
  [[nodiscard]] const Addresses& addresses() const override;
  void stop() override;

 private:
  [[nodiscard]] Result<void> start_all(const spec::DeploymentSpec& deployment, const Until& until);
  [[nodiscard]] Result<void> start_part(const std::string& name, const std::string& kind, const std::string& yaml);
  /// The client of the running deployment; an error before apply().
  [[nodiscard]] Result<const DeploymentClient*> running() const;

  LocalDeployerOptions options_;
  std::vector<ChildProcess> children_;  // workers in order, then the gateway
  std::optional<DeploymentClient> client_;
};

}  // namespace kvist::deploy
