// What a sweep measures, in which order, with which seeds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/spec/routing_mode.h"
#include "kvist/spec/sweep.h"

namespace kvist::sweep {

/// One concurrency level in one mode, once.
struct PlannedLevel {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t concurrency = 0;
  std::uint32_t repetition = 0;
  std::uint64_t seed = 0;

  bool operator==(const PlannedLevel&) const = default;
};

/// One fresh deployment and the levels measured on it: all of them ascending, then all of them again for the next
/// repetition, so that whatever drifts with time meets every level alike.
struct PlannedMode {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::vector<PlannedLevel> levels;
};

/// The levels of a mode that one load runs through: each alone, or, where the load goes on (spec::BetweenLevels), all
/// of a repetition. In the order of the plan.
[[nodiscard]] std::vector<std::span<const PlannedLevel>> loads_of(const PlannedMode& mode,
                                                                  const spec::SweepSpec& sweep);

/// Modes in the order of the specification, each over all repetitions of all levels. The seed of a level follows from
/// the run's seed, its concurrency and its repetition alone: every mode drives the same conversations, every level and
/// every repetition others. Where the load goes on from level to level, all have the seed of the lowest.
[[nodiscard]] std::vector<PlannedMode> make_plan(const spec::SweepSpec& sweep);

/// "kv 24", and where a level is measured more than once "kv 24 (2/5)": how progress lines and errors name a level.
[[nodiscard]] std::string describe(const PlannedLevel& level, std::uint32_t repetitions);

/// "2 modes x 9 levels x 10 repetitions"; one repetition is not mentioned.
[[nodiscard]] std::string describe_size(const spec::SweepSpec& sweep);

/// The whole plan without starting and draining: what a user is told to wait at least.
[[nodiscard]] Duration measuring_time(const spec::SweepSpec& sweep);

}  // namespace kvist::sweep
