// A whole run, analysed: its modes, its levels, and a look-up of each level in each mode.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/level_analysis.h"
#include "kvist/analysis/repetitions.h"
#include "kvist/base/error.h"
#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {

/// What all renderers share. It has no turns, because a level's samples are dropped as soon as it is analysed.
class RunAnalysis {
 public:
  /// For a run that is completely in memory.
  RunAnalysis(const results::RunRecord& run, const spec::SweepSpec& sweep);
  /// For measurements in the order in which they were made. `header` may come without levels.
  RunAnalysis(const results::RunRecord& header, const spec::SweepSpec& sweep, std::vector<Measurement> measurements);

  /// Without its levels.
  [[nodiscard]] const results::RunRecord& run() const { return run_; }
  /// With what the workers' profiles decide.
  [[nodiscard]] const spec::SweepSpec& sweep() const { return sweep_; }
  /// Modes that were measured, in the order of the sweep; the first is the baseline.
  [[nodiscard]] const std::vector<spec::Arm>& modes() const { return modes_; }
  /// Levels that were measured in at least one mode, ascending.
  [[nodiscard]] const std::vector<std::uint32_t>& concurrencies() const { return concurrencies_; }
  /// Every measured level, by concurrency, then in the order of the modes.
  [[nodiscard]] const std::vector<MeasuredLevel>& levels() const { return levels_; }
  /// Null if the level was not measured in the mode. Of a repetition that was measured again, the last measurement
  /// counts.
  [[nodiscard]] const MeasuredLevel* find(const spec::Arm& mode, std::uint32_t concurrency) const;
  /// Whether some level has more than one repetition.
  [[nodiscard]] bool repeated() const;
  /// Whether all repetitions of a level simulate the same recorded requests (MeasuredLevel::same_requests).
  [[nodiscard]] bool same_requests() const { return run_.simulated && !sweep_.workload.trace.file.empty(); }

  /// The factor by which the workers' engines run faster than their step-time model; nothing if it differs between
  /// workers or there are none.
  [[nodiscard]] std::optional<double> time_scale() const { return time_scale_; }

 private:
  void find_modes(const std::vector<Measurement>& measurements);

  results::RunRecord run_;
  spec::SweepSpec sweep_;
  std::vector<spec::Arm> modes_;
  std::vector<std::uint32_t> concurrencies_;
  std::vector<MeasuredLevel> levels_;
  std::optional<double> time_scale_;
};

/// By how many percent `candidate` is below `baseline`: positive is better for times. Nothing if either is missing or
/// excluded, or if the baseline is 0.
[[nodiscard]] std::optional<double> improvement_pct(const MeasuredLevel* baseline, const MeasuredLevel* candidate,
                                                    LevelFigure figure);

}  // namespace kvist::analysis
