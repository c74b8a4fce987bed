// Measured levels to which a profile is fitted: a published reference, or a stored sweep.
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

/// Measured levels with the deployment, workload and method to simulate.
struct Measurements {
  std::string source;  ///< the file's name, for the origin of fitted coefficients
  spec::SweepSpec sweep;
  std::vector<MeasuredFigures> levels;  ///< by users, then mode
};

/// Loads a file of data/reference or a report.json. `sweep` describes the deployment on which it was measured. The
/// published mode kv_aware is NVIDIA Dynamo's router, so if the sweep has the mode dynamo, it is used for that. Modes
/// that the sweep does not have are left out. Errors: an unreadable file, no level in any of the sweep's modes.
[[nodiscard]] Result<Measurements> load_reference_figures(const std::string& path, const spec::SweepSpec& sweep);

/// The levels of an analysed run, with repetitions averaged. `sweep` replaces the run's own description of what was
/// measured; nothing: the run's own.
[[nodiscard]] Result<Measurements> run_figures(const analysis::RunAnalysis& run, std::string source,
                                               const std::optional<spec::SweepSpec>& sweep);

/// Measurements split by their levels.
struct FitSplit {
  std::vector<MeasuredFigures> fitted;
  std::vector<MeasuredFigures> held_out;
};
/// If `fit_levels` is empty, all levels that are not held out are fitted. Errors: a level that was not measured (with
/// those that were), one on both sides, no level left to fit.
[[nodiscard]] Result<FitSplit> split_levels(const Measurements& measurements,
                                            const std::vector<std::uint32_t>& fit_levels,
                                            const std::vector<std::uint32_t>& held_out_levels);

}  // namespace kvist::planning
