// Whether a run is worse than an earlier one of the same kind: for continuous integration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"

namespace kvist::analysis {

/// The figures by which a regression is judged, each with the direction that is better.
struct JudgedFigure {
  Headline which = Headline::kTtftP50;
  bool less_is_better = true;
  bool in_points = false;  ///< of a percentage: compared by the difference
};
[[nodiscard]] const std::vector<JudgedFigure>& judged_figures();

/// One measured level, or the one load of `kvist loadgen`, as far as a regression is judged by it.
struct JudgedLevel {
  std::string name;                 ///< "kv at 24"; equal names are compared
  std::vector<Estimate> estimates;  ///< in the order of judged_figures()
  bool excluded = false;            ///< too many errors
  bool client_degraded = false;     ///< the load generator was too busy to measure
};

[[nodiscard]] std::vector<JudgedLevel> judged_levels(const RunAnalysis& analysis);
/// From the text of a summary.json of `kvist loadgen --output`; `path` is for errors.
[[nodiscard]] Result<std::vector<JudgedLevel>> judged_levels_of_summary(std::string_view text, const std::string& path);

enum class RegressionVerdict : std::uint8_t {
  kFine,     ///< not worse by more than the tolerance, or within the intervals
  kBetter,   ///< better by more than the tolerance, and beyond the intervals
  kWorse,    ///< worse by more than the tolerance, and beyond the intervals
  kUnknown,  ///< it was measured before and is not any more, or its client was too busy
};

struct FigureRegression {
  std::string level;
  JudgedFigure figure;
  Estimate before;
  Estimate after;
  std::optional<double> change;  ///< in percent, of percentages in points; positive is more
  RegressionVerdict verdict = RegressionVerdict::kFine;
  std::string reason = {};  ///< of kUnknown
};

/// Compares every figure of every level that `before` has. `tolerance_pct`: of the earlier value; of percentages in
/// points. Where both have intervals that overlap, a difference is chance and the verdict kFine.
[[nodiscard]] std::vector<FigureRegression> compare_runs(const std::vector<JudgedLevel>& before,
                                                         const std::vector<JudgedLevel>& after, double tolerance_pct);

}  // namespace kvist::analysis
