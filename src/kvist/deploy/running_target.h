// An endpoint that runs already, as a deployment.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "kvist/deploy/deployer.h"
#include "kvist/deploy/deployment_client.h"
#include "kvist/spec/target_spec.h"

namespace kvist::deploy {

/// Starts and ends nothing: apply() and stop() only forget. What the target does not tell stays unknown: without a
/// gateway's listener for administration nobody knows what is in flight there, so that idleness is a pause of
/// TargetSpec::settle, and workers that are not named have no counters. Threads: one.
class RunningTarget final : public Deployer {
 public:
  /// Errors: an unreadable key or certificate.
  [[nodiscard]] static Result<std::unique_ptr<RunningTarget>> create(const spec::TargetSpec& target);

  [[nodiscard]] Result<void> apply(const spec::DeploymentSpec& deployment, const Until& until) override;
  /// Until it answers. Its caches stay as they are.
  [[nodiscard]] Result<void> await_ready(const Until& until) override;
  [[nodiscard]] Result<void> set_routing_mode(spec::RoutingMode mode) override;
  /// Runs the arm's command, turns to its URL, switches the gateway to its mode, and waits until it answers.
  [[nodiscard]] Result<void> enter(const spec::ArmSpec& arm, const Until& until) override;
  [[nodiscard]] Result<void> empty_caches(const Until& until) override;
  [[nodiscard]] Result<std::vector<WorkerMetrics>> collect() override { return client_.collect(); }
  [[nodiscard]] Result<void> await_idle(const Until& until) override;
  [[nodiscard]] Result<void> check_alive() override { return {}; }
  [[nodiscard]] const Addresses& addresses() const override { return client_.addresses(); }
  void stop() override {}

 private:
  RunningTarget(spec::TargetSpec target, Addresses addresses);

  spec::TargetSpec target_;
  DeploymentClient client_;
};

}  // namespace kvist::deploy
