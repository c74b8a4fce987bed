// Measured levels to fit a profile to: a published reference, or a sweep of one's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"
#include "kvist/planning/level_figures.h"
#include "kvist/spec/sweep.h"

namespace kvist::planning {

struct MeasuredFigures {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t users = 0;
  LevelFigures figures;
};

/// Where they come from, and what was measured: the deployment, workload and method to simulate.
struct Measurements {
  std::string source;  ///< the file's name, for the origin of what is fitted
  spec::SweepSpec sweep;
  std::vector<MeasuredFigures> levels;  ///< by users, then mode
};

/// A file of data/reference or a report.json; `sweep` describes the deployment it was measured on. The published mode
/// kv_aware is NVIDIA Dynamo's router: where the sweep names the mode dynamo, it stands for that. Modes that the sweep
/// does not name are left out. Errors: a file that does not read, no level in any of the sweep's modes.
[[nodiscard]] Result<Measurements> load_reference_figures(const std::string& path, const spec::SweepSpec& sweep);

/// The levels of an analysed run; repetitions are averaged. `sweep`: another description of what was measured than the
/// run's own; nothing: the run's.
[[nodiscard]] Result<Measurements> run_figures(const analysis::RunAnalysis& run, std::string source,
                                               const std::optional<spec::SweepSpec>& sweep);

/// Measurements split by their levels.
struct FitSplit {
  std::vector<MeasuredFigures> fitted;
  std::vector<MeasuredFigures> held_out;
};
/// Empty `fit_levels`: all that are not held out. Errors: a level that was not measured (with those that were), one
/// that is on both sides, nothing left to fit to.
[[nodiscard]] Result<FitSplit> split_levels(const Measurements& measurements,
                                            const std::vector<std::uint32_t>& fit_levels,
                                            const std::vector<std::uint32_t>& held_out_levels);

}  // namespace kvist::planning
