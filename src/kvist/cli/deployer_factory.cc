#include "kvist/cli/deployer_factory.h"

#include <memory>
#include <utility>

#include "kvist/deploy/local_deployer.h"
#include "kvist/deploy/running_target.h"

namespace kvist::cli {

Result<sweep::DeployerFactory> deployer_factory(const spec::SweepSpec& sweep) {
  if (!sweep.target.is_given()) {
    return sweep::DeployerFactory([](const std::string& run_directory) {
      return std::make_unique<deploy::LocalDeployer>(deploy::LocalDeployerOptions{.run_directory = run_directory});
    });
  }
  KVIST_TRY(std::unique_ptr<deploy::RunningTarget> target, deploy::RunningTarget::create(sweep.target));
  // A sweep has one deployment of a target, which it takes over.
  const auto kept = std::make_shared<std::unique_ptr<deploy::RunningTarget>>(std::move(target));
  return sweep::DeployerFactory(
      [kept](const std::string&) -> std::unique_ptr<deploy::Deployer> { return std::move(*kept); });
}

}  // namespace kvist::cli
