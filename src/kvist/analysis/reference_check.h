// Compares a run with published figures: deviation by level, mean absolute deviation, verdict.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/check_rules.h"
#include "kvist/analysis/reference_data.h"
#include "kvist/analysis/run_analysis.h"

namespace kvist::analysis {

/// How a level counts for the verdict on a figure.
enum class LevelUse {
  kCounted,  ///< counts for the mean absolute deviation
  kRange,    ///< the published value must lie within the repetitions' range
  kLeftOut,  ///< compared only; `reason` says why
};

/// One figure of one level in one mode.
struct LevelDeviation {
  std::uint32_t concurrency = 0;
  double published = 0;
  std::optional<Spread> measured;  ///< nothing if the run does not have the figure
  /// (measured mean - published) / published in percent; for figures that are percentages themselves the difference in
  /// points. Nothing if it cannot be computed.
  std::optional<double> deviation;
  bool within_range = false;  ///< the smallest repetition <= published <= the largest
  LevelUse use = LevelUse::kCounted;
  std::string reason;
};

enum class Verdict {
  kMet,
  kMissed,
  kNoBar,       ///< compared without a bar
  kIncomplete,  ///< a level that counts was not measured, or a range needs more than one repetition
};
[[nodiscard]] std::string_view to_string(Verdict verdict);

/// One figure in one mode over all levels.
struct FigureCheck {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  const NamedFigure* figure = nullptr;
  std::optional<Bar> bar;
  std::vector<LevelDeviation> levels;
  std::size_t counted = 0;
  std::optional<double> mean_absolute;  ///< over the levels that count
  std::optional<double> mean_signed;
  std::size_t range_levels = 0;
  std::size_t range_hits = 0;
  Verdict verdict = Verdict::kNoBar;
  /// Whether deviations are percentage points.
  [[nodiscard]] bool in_points() const { return figure->plain_unit == "%"; }
};

struct ReferenceCheck {
  Reference reference;
  CheckRules rules;
  std::uint32_t slots = 0;           ///< batch slots of all workers
  std::vector<FigureCheck> figures;  ///< in the order of published_figures(), by mode

  [[nodiscard]] std::size_t count(Verdict verdict) const;
};

/// The run's mode that a published mode is compared with. It is the mode itself, except that the published kv_aware is
/// NVIDIA Dynamo's router: if the run has the mode dynamo, that one is used for kv.
[[nodiscard]] spec::RoutingMode stand_in(const RunAnalysis& analysis, spec::RoutingMode published);

/// Compares every figure of the reference with the run's mean over repetitions.
[[nodiscard]] ReferenceCheck check_against(const RunAnalysis& analysis, Reference reference, CheckRules rules);

}  // namespace kvist::analysis
