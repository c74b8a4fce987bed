// What runs a deployment, and what a live sweep measures: local processes, a cluster, or a target that runs already.
#pragma once

#include <memory>
#include <string>

#include "kvist/base/error.h"
#include "kvist/deploy/deployer.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/live_levels.h"

namespace kvist::cli {

/// For the place that the deployment names. `run_directory`: for the settings and logs of local processes. Errors: no
/// access to the cluster.
[[nodiscard]] Result<std::unique_ptr<deploy::Deployer>> deployer_of(const spec::DeploymentSpec& deployment,
                                                                    const std::string& run_directory);

/// Errors: a target whose key cannot be read, no access to the cluster.
[[nodiscard]] Result<sweep::DeployerFactory> deployer_factory(const spec::SweepSpec& sweep);

/// The manifests that the deployment would be, one YAML document each. Requires: it has `kubernetes`.
[[nodiscard]] Result<std::string> manifests_of(const spec::DeploymentSpec& deployment);

}  // namespace kvist::cli
