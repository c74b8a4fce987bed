// Whether a run is worse than an earlier one of the same kind: for continuous integration.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"

namespace kvist::analysis {

/// The figures by which a regression is judged; percentages by the difference, in points.
[[nodiscard]] std::span<const Headline> judged_figures();

/// One measured level, or the load of `kvist loadgen`: the part by which a regression is judged.
struct JudgedLevel {
  std::string name;                 ///< "kv at 24", "synthetic, 8/s poisson"; equal names are compared
  std::vector<Estimate> estimates;  ///< in the order of judged_figures()
  /// What was sent, line by line, without the seed: levels of one name are only compared if this is equal.
  std::vector<std::string> load = {};
  bool excluded = false;         ///< too many errors
  bool client_degraded = false;  ///< the load generator was too busy to measure
};

[[nodiscard]] std::vector<JudgedLevel> judged_levels(const RunAnalysis& analysis);
/// Reads the levels of a summary.json of `kvist loadgen --output`; `path` is for errors.
[[nodiscard]] Result<std::vector<JudgedLevel>> judged_levels_of_summary(std::string_view text, const std::string& path);

enum class RegressionVerdict : std::uint8_t {
  kFine,     ///< not worse by more than the tolerance, or within the intervals
  kBetter,   ///< better by more than the tolerance, and beyond the intervals
  kWorse,    ///< worse by more than the tolerance, and beyond the intervals
  kUnknown,  ///< it was measured before and not now, or its client was too busy
};

struct FigureRegression {
  std::string level;
  Headline figure = Headline::kTtftP50;
  Estimate before;
  Estimate after;
  std::optional<double> change;  ///< in percent, in points for percentages; positive is more
  RegressionVerdict verdict = RegressionVerdict::kFine;
  std::string reason = {};  ///< of kUnknown
};

/// Changes that count as none.
struct RegressionTolerance {
  double figures_pct = 5;     ///< of the earlier value; of a hit rate in points
  double error_points = 0.5;  ///< of the share of errors, of which 5 points more would be a broken server
};

/// Refuses runs that have no level in common, and levels of one name that did not send the same. The error names the
/// levels of both, or the first line in which their loads differ; `before_name` and `after_name` are where they are
/// from.
[[nodiscard]] Result<void> check_comparable(const std::vector<JudgedLevel>& before, const std::string& before_name,
                                            const std::vector<JudgedLevel>& after, const std::string& after_name);

/// Compares every figure of every level that `before` has. Where both have intervals that overlap, a difference is
/// chance and the verdict kFine.
[[nodiscard]] std::vector<FigureRegression> compare_runs(const std::vector<JudgedLevel>& before,
                                                         const std::vector<JudgedLevel>& after,
                                                         const RegressionTolerance& tolerance);

}  // namespace kvist::analysis
