// The figures that observations and notes of an experiment use, by name.
#pragma once

#include <map>
#include <string>

#include "kvist/analysis/reference_check.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/laboratory/expression.h"

namespace kvist::laboratory {

/// One experiment's published figures, its run, and the runs that change one thing. Holds references to all of them.
///
/// Names: the published keys (ttft_p50_ms, ..., error_pct), and of runs turn_mean_hit_rate_pct, imbalance, evictions,
/// preemptions (per repetition), kv_use_max_pct, waiting_max, running_mean, prefilled_tokens (per repetition),
/// acceptance, slots. Arguments: mode ("kv": the published KV router), concurrency, and of runs the name of a
/// counterfactual. In front of a name: "published_" or "simulated_" whatever the side; "low_", "high_", "sd_" for
/// smallest, largest, standard deviation over repetitions. deviation_pct(key, mode): the mean absolute deviation over
/// the levels that count.
class ExperimentFigures {
 public:
  enum class Side { kPublished, kSimulated };

  ExperimentFigures(const analysis::ReferenceCheck& check, const analysis::RunAnalysis& run,
                    const std::map<std::string, analysis::RunAnalysis>& others)
      : check_(check), run_(run), others_(others) {}

  /// The figures of the side for which a name without a prefix stands.
  [[nodiscard]] Figures of(Side side) const;

 private:
  using Arguments = std::vector<std::string>;
  [[nodiscard]] Result<std::optional<double>> find(std::string name, const Arguments& arguments, Side side) const;
  [[nodiscard]] Result<std::optional<double>> published(const std::string& name, const Arguments& arguments) const;
  [[nodiscard]] Result<std::optional<double>> simulated(const std::string& name, const std::string& statistic,
                                                        const Arguments& arguments) const;
  [[nodiscard]] Result<std::optional<double>> deviation(const Arguments& arguments) const;

  const analysis::ReferenceCheck& check_;
  const analysis::RunAnalysis& run_;
  const std::map<std::string, analysis::RunAnalysis>& others_;
};

}  // namespace kvist::laboratory
