// Deployments in a Kubernetes cluster.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/deploy/cluster_session.h"
#include "kvist/deploy/deployer.h"
#include "kvist/deploy/deployment_client.h"
#include "kvist/deploy/kubernetes_manifests.h"

namespace kvist::deploy {

/// Every part is a Deployment of one pod with a Service, applied under a field manager of kvist's own. Pods are reached
/// at their own addresses, as their Services' slices say them: from within the cluster, or where its pods' network can
/// be reached. Each start is one of new pods, without caches: what an earlier deployment of the same name
/// has left is removed first. Threads: one.
class KubernetesDeployer final : public Deployer {
 public:
  /// Errors: no access to the cluster. Requires: `deployment` has `kubernetes`.
  [[nodiscard]] static Result<std::unique_ptr<KubernetesDeployer>> create(const spec::DeploymentSpec& deployment);
  ~KubernetesDeployer() override { stop(); }
  KubernetesDeployer(const KubernetesDeployer&) = delete;
  KubernetesDeployer& operator=(const KubernetesDeployer&) = delete;

  /// Waits until every part's pod is ready, at most for KubernetesDeploymentSpec::ready_timeout and not until
  /// `until`'s deadline, because images have to be pulled and models loaded.
  [[nodiscard]] Result<void> apply(const spec::DeploymentSpec& deployment, const Until& until) override;
  [[nodiscard]] Result<void> await_ready(const Until& until) override;
  [[nodiscard]] Result<void> set_routing_mode(spec::RoutingMode mode) override;
  [[nodiscard]] Result<void> empty_caches(const Until& until) override;
  [[nodiscard]] Result<std::vector<WorkerMetrics>> collect() override;
  [[nodiscard]] Result<void> await_idle(const Until& until) override;
  /// Returns an error if a part's pod is gone, not ready, or another one than at the start.
  [[nodiscard]] Result<void> check_alive() override;
  [[nodiscard]] const Addresses& addresses() const override;
  /// Removes what was applied, unless it is to be kept.
  void stop() override;

 private:
  KubernetesDeployer(spec::KubernetesDeploymentSpec kubernetes, ClusterSession session)
      : kubernetes_(std::move(kubernetes)), session_(std::move(session)) {}
  [[nodiscard]] Result<void> apply_parts(std::vector<KubernetesPart> parts, const Until& until);
  [[nodiscard]] Result<void> remove_all_of(const std::string& deployment, const Until& until) const;
  /// Refuses to touch an object of the part's name that is not the deployment's.
  [[nodiscard]] Result<void> check_own(const kubernetes::Resource& resource, const KubernetesPart& part) const;
  [[nodiscard]] Result<void> await_rollout(const KubernetesPart& part, const Until& until) const;
  [[nodiscard]] kubernetes::ApiResult<std::string> slices_of(const KubernetesPart& part) const;
  [[nodiscard]] Result<PodAddress> pod_of(const KubernetesPart& part) const;
  [[nodiscard]] Result<Addresses> find_addresses(const spec::DeploymentSpec& deployment) const;
  [[nodiscard]] Result<void> remove(const std::string& object, const Until& until) const;
  void remove_parts();
  [[nodiscard]] Result<const DeploymentClient*> running() const;

  spec::KubernetesDeploymentSpec kubernetes_;
  ClusterSession session_;
  std::vector<KubernetesPart> parts_;  // that were applied; none of their names is another's
  std::optional<DeploymentClient> client_;
  TimePoint next_look_{};  // of check_alive(), which is called often
};

}  // namespace kvist::deploy
