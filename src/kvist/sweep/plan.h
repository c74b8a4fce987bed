// What a sweep measures, in which order, with which seeds.
#pragma once

#include <cstdint>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/spec/routing_mode.h"
#include "kvist/spec/sweep.h"

namespace kvist::sweep {

/// One concurrency level in one mode.
struct PlannedLevel {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t concurrency = 0;
  std::uint64_t seed = 0;

  bool operator==(const PlannedLevel&) const = default;
};

/// One fresh deployment and the levels measured on it, ascending.
struct PlannedMode {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::vector<PlannedLevel> levels;
};

/// Modes in the order of the specification, each over all levels. The seed of a level follows from the run's seed and
/// its concurrency alone: every mode drives the same conversations, every level others.
[[nodiscard]] std::vector<PlannedMode> make_plan(const spec::SweepSpec& sweep);

/// Warm-up and snapshots of one level.
[[nodiscard]] Duration measuring_time(const spec::MethodSpec& method);
/// The whole plan without starting and draining: what a user is told to wait at least.
[[nodiscard]] Duration measuring_time(const spec::SweepSpec& sweep);

}  // namespace kvist::sweep
