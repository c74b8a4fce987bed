// What a cluster's API server says about following a Service there.
#pragma once

#include <vector>

#include "kvist/base/time.h"
#include "kvist/doctor/snapshot.h"
#include "kvist/spec/deployment.h"

namespace kvist::doctor {

/// Asks whether the API server answers, whether what the gateway needs is allowed there (list and watch), and which
/// workers there are now, which are appended to `workers`. Blocks. Requires: the group is one of Kubernetes.
[[nodiscard]] ClusterFacts ask_cluster(const spec::WorkerGroupSpec& group, const std::string& model, Duration timeout,
                                       std::vector<spec::UpstreamSpec>& workers);

}  // namespace kvist::doctor
