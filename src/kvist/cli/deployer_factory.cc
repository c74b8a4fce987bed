#include "kvist/cli/deployer_factory.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "kvist/deploy/dynamo_target.h"
#include "kvist/deploy/kubernetes_deployer.h"
#include "kvist/deploy/kubernetes_manifests.h"
#include "kvist/deploy/local_deployer.h"
#include "kvist/deploy/running_target.h"

namespace kvist::cli {
namespace {

/// A sweep has one deployment of a target, which it takes over.
template <class Target>
sweep::DeployerFactory giving(std::unique_ptr<Target> target) {
  const auto kept = std::make_shared<std::unique_ptr<Target>>(std::move(target));
  return [kept](const std::string&) -> Result<std::unique_ptr<deploy::Deployer>> { return std::move(*kept); };
}

}  // namespace

Result<std::unique_ptr<deploy::Deployer>> deployer_of(const spec::DeploymentSpec& deployment,
                                                      const std::string& run_directory) {
  if (!deployment.kubernetes)
    return std::make_unique<deploy::LocalDeployer>(deploy::LocalDeployerOptions{.run_directory = run_directory});
  KVIST_TRY(std::unique_ptr<deploy::KubernetesDeployer> deployer, deploy::KubernetesDeployer::create(deployment));
  return deployer;
}

Result<sweep::DeployerFactory> deployer_factory(const spec::SweepSpec& sweep) {
  if (!sweep.target.is_given()) {
    return sweep::DeployerFactory([deployment = sweep.deployment](const std::string& run_directory) {
      return deployer_of(deployment, run_directory);
    });
  }
  if (sweep.target.dynamo) {
    KVIST_TRY(std::unique_ptr<deploy::DynamoTarget> target, deploy::DynamoTarget::create(sweep.target));
    return giving(std::move(target));
  }
  KVIST_TRY(std::unique_ptr<deploy::RunningTarget> target, deploy::RunningTarget::create(sweep.target));
  return giving(std::move(target));
}

Result<std::string> manifests_of(const spec::DeploymentSpec& deployment) {
  const std::string& name_space = deployment.kubernetes->name_space;
  KVIST_TRY(const auto parts, deploy::kubernetes_parts(deployment, name_space.empty() ? "default" : name_space, 2));
  std::string text;
  for (const deploy::KubernetesPart& part : parts)
    text += fmt::format("{}# {}\n{}\n---\n{}\n", text.empty() ? "" : "---\n", part.object, part.service, part.workload);
  return text;
}

}  // namespace kvist::cli
