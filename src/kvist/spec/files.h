// The files people write, whole: each with one root key, except a sweep, which is the root itself.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/sweep.h"
#include "kvist/spec/workload.h"

namespace kvist::spec {

/// `worker:`, as `kvist worker -f` takes it.
[[nodiscard]] Result<WorkerSpec> load_worker(const std::string& path);
/// `gateway:`, as `kvist gateway -f` takes it; at least one worker must be named.
[[nodiscard]] Result<GatewaySpec> load_gateway(const std::string& path);
/// `deployment:`, as `kvist up -f` takes it.
[[nodiscard]] Result<DeploymentSpec> load_deployment(const std::string& path);
/// The same for what looks at one load; also the deployment of a sweep. Errors: also if the gateway serves several
/// models.
[[nodiscard]] Result<DeploymentSpec> load_deployment_of_one_model(const std::string& path);
/// `workload:`, as `kvist loadgen -f` takes it.
[[nodiscard]] Result<WorkloadSpec> load_workload(const std::string& path);
/// A sweep; paths in it are relative to its folder.
[[nodiscard]] Result<SweepSpec> load_sweep(const std::string& path);

}  // namespace kvist::spec
