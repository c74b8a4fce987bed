// A whole run, analysed: its modes, its levels, and a look-up of each level in each mode.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/report/level_analysis.h"
#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"

namespace kvist::report {

/// One measured level: the record it comes from and what it says. `record` points into the run.
struct MeasuredLevel {
  const results::LevelRecord* record = nullptr;
  LevelAnalysis analysis;
};

/// Everything the renderers share. Refers to the run and the sweep, which must outlive it.
class RunAnalysis {
 public:
  RunAnalysis(const results::RunRecord& run, const spec::SweepSpec& sweep);

  [[nodiscard]] const results::RunRecord& run() const { return *run_; }
  [[nodiscard]] const spec::SweepSpec& sweep() const { return *sweep_; }
  /// Modes that were measured, in the order of the sweep; the first is the baseline.
  [[nodiscard]] const std::vector<spec::RoutingMode>& modes() const { return modes_; }
  /// Levels that were measured in at least one mode, ascending.
  [[nodiscard]] const std::vector<std::uint32_t>& concurrencies() const { return concurrencies_; }
  /// Every measured level, by concurrency, then in the order of the modes.
  [[nodiscard]] const std::vector<MeasuredLevel>& levels() const { return levels_; }
  /// Null where that level was not measured in that mode. A level measured again counts with its last measurement.
  [[nodiscard]] const MeasuredLevel* find(spec::RoutingMode mode, std::uint32_t concurrency) const;

  /// The factor by which the workers' engines run faster than their model of time; nothing when they differ or there
  /// are none.
  [[nodiscard]] std::optional<double> time_scale() const { return time_scale_; }

 private:
  const results::RunRecord* run_;
  const spec::SweepSpec* sweep_;
  std::vector<spec::RoutingMode> modes_;
  std::vector<std::uint32_t> concurrencies_;
  std::vector<MeasuredLevel> levels_;
  std::optional<double> time_scale_;
};

/// A figure of a level, nothing where the level is missing or has no such figure.
using LevelFigure = std::optional<double> (*)(const LevelAnalysis&);

/// By how many percent `candidate` is below `baseline`: positive is better for times. Nothing where either is missing,
/// excluded or the baseline is 0.
[[nodiscard]] std::optional<double> improvement_pct(const MeasuredLevel* baseline, const MeasuredLevel* candidate,
                                                    LevelFigure figure);

}  // namespace kvist::report
