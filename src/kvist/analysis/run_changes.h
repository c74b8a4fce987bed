// One run beside another: the same levels of two deployments, or of one before and after a change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/paired.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/base/cluster_bootstrap.h"
#include "kvist/base/error.h"
#include "kvist/spec/arm.h"

namespace kvist::analysis {

/// A run as it is called in a comparison. The analysis has to outlive what refers to it.
struct NamedRun {
  std::string name;
  const RunAnalysis* analysis = nullptr;
};

/// How a figure of a level changed. Values and intervals are in the unit of the figure's key.
struct FigureChange {
  Estimate before;
  Estimate after;
  Estimate change;  ///< in percent of the value before, of percentages in points; positive is more
  PairedVerdict verdict = PairedVerdict::kOpen;  ///< kEqual: the interval has 0 in it; kOpen: there is no interval
};

/// What speaks against comparing a level with any other, whoever measured that; empty if nothing does.
[[nodiscard]] std::vector<std::string> own_objections(const MeasuredLevel& level);

/// The interval of the change is that of
///  - pairs, if three or more repetitions of both have the same seed: Student's t over their changes, whose mean is the
///    change then, whatever repetitions only one of the two has,
///  - otherwise three or more repetitions of each: Welch's t, with the value before as it is,
///  - otherwise the bootstrap over conversations and time, which are pairs where both runs have the same seed.
/// Nothing is known of the change if a level is missing, has too many errors, or something speaks against it.
[[nodiscard]] FigureChange change_of(const MeasuredLevel* before, const MeasuredLevel* after,
                                     const HeadlineFigure& figure);

/// Two arms that stand for each other.
struct ArmPair {
  spec::Arm before = spec::RoutingMode::kRoundRobin;
  spec::Arm after = spec::RoutingMode::kRoundRobin;
};

/// What a later run is compared by: arms of the same name; of runs with one arm each, these two.
struct RunPair {
  NamedRun before;
  NamedRun after;
  std::vector<ArmPair> arms;
  std::vector<std::uint32_t> concurrencies;  ///< that either has, ascending
};

/// Refuses runs that must not be compared: other loads (a seed apart), simulated with live ones, no arm or no level in
/// common. The error says which.
[[nodiscard]] Result<RunPair> pair_runs(NamedRun before, NamedRun after);

/// A setting that differs between two runs, as the path of its key and both values; "-" where it does not exist.
struct SettingChange {
  std::string key;  ///< "workers.0.max_batch_size"
  std::string before;
  std::string after;
};
/// Of deployment or target, method and comparison; names of workers and addresses do not count.
[[nodiscard]] std::vector<SettingChange> setting_changes(const spec::SweepSpec& before, const spec::SweepSpec& after);

}  // namespace kvist::analysis
