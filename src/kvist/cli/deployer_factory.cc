#include "kvist/cli/deployer_factory.h"

#include <memory>
#include <utility>

#include "kvist/deploy/dynamo_target.h"
#include "kvist/deploy/local_deployer.h"
#include "kvist/deploy/running_target.h"

namespace kvist::cli {
namespace {

/// A sweep has one deployment of a target, which it takes over.
template <class Target>
sweep::DeployerFactory giving(std::unique_ptr<Target> target) {
  const auto kept = std::make_shared<std::unique_ptr<Target>>(std::move(target));
  return [kept](const std::string&) -> std::unique_ptr<deploy::Deployer> { return std::move(*kept); };
}

}  // namespace

Result<sweep::DeployerFactory> deployer_factory(const spec::SweepSpec& sweep) {
  if (!sweep.target.is_given()) {
    return sweep::DeployerFactory([](const std::string& run_directory) {
      return std::make_unique<deploy::LocalDeployer>(deploy::LocalDeployerOptions{.run_directory = run_directory});
    });
  }
  if (sweep.target.dynamo) {
    KVIST_TRY(std::unique_ptr<deploy::DynamoTarget> target, deploy::DynamoTarget::create(sweep.target));
    return giving(std::move(target));
  }
  KVIST_TRY(std::unique_ptr<deploy::RunningTarget> target, deploy::RunningTarget::create(sweep.target));
  return giving(std::move(target));
}

}  // namespace kvist::cli
