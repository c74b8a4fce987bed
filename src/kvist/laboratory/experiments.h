// Compares all published experiments with their simulated runs: docs/results/experiments.md and its plots.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::laboratory {

/// Input and output paths. The rules are in `bars.yaml` in the manifest's folder.
struct ExperimentsOptions {
  std::string manifest = "examples/experiments/experiments.yaml";
  std::string references = "data/reference";  ///< with NAME.json
  /// Results: per experiment NAME/main/, per counterfactual NAME/COUNTERFACTUAL/, each the folder that `kvist simulate
  /// --output` was given (the last run in it counts) or one with results.sqlite.
  std::string results;
  std::string document = "docs/results/experiments.md";
  std::string images = "docs/results/images/experiments";  ///< for NAME.svg
};

struct ExperimentsOutcome {
  std::string table;  ///< for a terminal: verdicts per experiment
  std::size_t met = 0;
  std::size_t missed = 0;
  std::size_t open = 0;  ///< bars without a verdict, because something was not measured
};

/// Writes document and plots. The same results give the same bytes: no times, no machine. Errors: a missing or
/// unreadable file, an invalid predicate or {{figure}}.
[[nodiscard]] Result<ExperimentsOutcome> write_experiments(const ExperimentsOptions& options);

}  // namespace kvist::laboratory
