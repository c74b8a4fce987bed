// Recorded traffic once more, in virtual time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/planning/traffic_figures.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/routing_mode.h"
#include "kvist/workload/recorded_traffic.h"

namespace kvist::planning {

/// A fleet that may have answered the recorded requests.
struct Situation {
  spec::DeploymentSpec deployment;
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  Duration way_in{};  ///< of every request, beside what the deployment's own model of time says
};

/// Replays all requests once, each at its instant or after the one it followed, from cold caches to the last answer.
/// Times are those at the gateway. What was not observed of a request is left out of its answer here, too. The seed is
/// that of texts and tokens. Deterministic. Threads: any. Errors: a deployment that cannot be simulated.
[[nodiscard]] Result<Answers> replay(const workload::RecordedTraffic& traffic, const Situation& situation,
                                     std::uint64_t seed);

/// Replays in each situation with seeds `first`, `first` + 1, ...: answers[situation][seed]. Uses several threads; the
/// result does not depend on their number.
[[nodiscard]] Result<std::vector<std::vector<Answers>>> replay_all(const workload::RecordedTraffic& traffic,
                                                                   std::span<const Situation> situations,
                                                                   std::uint64_t first, std::uint32_t seeds,
                                                                   unsigned threads);

}  // namespace kvist::planning
