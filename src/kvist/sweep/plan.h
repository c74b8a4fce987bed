// The levels of a sweep, their order and their seeds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/spec/arm.h"
#include "kvist/spec/sweep.h"

namespace kvist::sweep {

/// One concurrency level of one arm, once.
struct PlannedLevel {
  spec::Arm mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t concurrency = 0;
  std::uint32_t repetition = 0;
  std::uint64_t seed = 0;

  bool operator==(const PlannedLevel&) const = default;
};

/// Levels of one arm that are measured in succession: all of them ascending, then all of them again for the next
/// repetition, so that slow drifts affect all levels alike. If arms alternate, it is one load.
struct PlannedMode {
  spec::Arm mode = spec::RoutingMode::kRoundRobin;
  std::vector<PlannedLevel> levels;
};

/// The levels of a mode that one load runs through: one level each, or all levels of a repetition if the load continues
/// between levels (spec::BetweenLevels). In the order of the plan.
[[nodiscard]] std::vector<std::span<const PlannedLevel>> loads_of(const PlannedMode& mode,
                                                                  const spec::SweepSpec& sweep);

/// Arms in the order of the specification, each over all repetitions of all levels; or, if arms alternate, repetition
/// by repetition and load by load every arm once, in the order that spec::ArmOrder says. The seed of a level follows
/// from the run's seed, its concurrency and its repetition alone: every arm drives the same conversations, and each
/// level and repetition has different ones. If the load continues from level to level, all have the seed of the lowest
/// level.
[[nodiscard]] std::vector<PlannedMode> make_plan(const spec::SweepSpec& sweep);

/// The name of a level in progress lines and errors: "kv 24", or "kv 24 (2/5)" if it is measured more than once.
[[nodiscard]] std::string title_of(const PlannedLevel& level, std::uint32_t repetitions);

/// "2 modes x 9 levels x 10 repetitions"; one repetition is not mentioned.
[[nodiscard]] std::string describe_size(const spec::SweepSpec& sweep);

/// The duration of the whole plan without starts and drains: a lower bound for the user.
[[nodiscard]] Duration measuring_time(const spec::SweepSpec& sweep);

}  // namespace kvist::sweep
