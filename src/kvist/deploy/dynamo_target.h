// A graph of NVIDIA Dynamo in Kubernetes, as a deployment.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/deploy/cluster_session.h"
#include "kvist/deploy/deployer.h"
#include "kvist/deploy/running_target.h"
#include "kvist/spec/target_spec.h"

namespace kvist::deploy {

/// A target whose routing mode is a variable of the frontend's pods. Each change of it is a redeployment, so that one
/// is made only if the mode differs from what runs: a sweep that measures its arms one after the other has as many as
/// it has arms. The variable is set by server-side apply, under a field manager of kvist's own, and stays so after the
/// sweep. Threads: one.
class DynamoTarget final : public Deployer {
 public:
  /// Errors: an unreadable key, no access to the cluster. Requires: the target has one.
  [[nodiscard]] static Result<std::unique_ptr<DynamoTarget>> create(const spec::TargetSpec& target);

  /// Remembers the deployment, of which a graph is made, and applies it in its gateway's mode.
  [[nodiscard]] Result<void> apply(const spec::DeploymentSpec& deployment, const Until& until) override;
  [[nodiscard]] Result<void> await_ready(const Until& until) override { return target_->await_ready(until); }
  /// Applies the mode, waits until the operator says that this change is what runs, and warms up. May take until
  /// DynamoTargetSpec::ready_timeout, whatever `until` says, because a model has to be loaded. Errors: a field
  /// manager's conflict names the fields and their owners.
  [[nodiscard]] Result<void> enter(const spec::ArmSpec& arm, const Until& until) override;
  [[nodiscard]] Result<void> set_routing_mode(spec::RoutingMode mode) override;
  [[nodiscard]] Result<void> empty_caches(const Until& until) override { return target_->empty_caches(until); }
  [[nodiscard]] Result<std::vector<WorkerMetrics>> collect() override { return target_->collect(); }
  [[nodiscard]] Result<void> await_idle(const Until& until) override { return target_->await_idle(until); }
  [[nodiscard]] Result<void> check_alive() override { return target_->check_alive(); }
  [[nodiscard]] const Addresses& addresses() const override { return target_->addresses(); }
  /// What was applied goes on to run: it is the user's.
  void stop() override { target_->stop(); }

  /// Changes of the graph that this object has made: redeployments.
  [[nodiscard]] int redeployments() const { return redeployments_; }

 private:
  DynamoTarget(spec::DynamoTargetSpec dynamo, std::unique_ptr<RunningTarget> target, ClusterSession session);
  [[nodiscard]] Result<void> switch_to(spec::RoutingMode mode, const Until& until);
  /// The object after the change.
  [[nodiscard]] Result<std::string> apply_manifest(spec::RoutingMode mode, const Until& until) const;
  [[nodiscard]] Result<void> await_graph(const Until& until) const;

  spec::DynamoTargetSpec dynamo_;
  std::unique_ptr<RunningTarget> target_;
  ClusterSession session_;
  spec::DeploymentSpec deployment_;
  std::optional<spec::RoutingMode> mode_;  // that was applied last, and was ready
  int redeployments_ = 0;
};

}  // namespace kvist::deploy
