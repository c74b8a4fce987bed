// The routing scenarios as one document with plots: tables, paired comparisons, bars and shortfalls.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"
#include "kvist/laboratory/routing_bars.h"
#include "kvist/laboratory/routing_spec.h"
#include "kvist/render/document.h"

namespace kvist::laboratory {

/// A scenario, its run, and the outcomes of its bars.
struct RoutingRun {
  RoutingScenario scenario;
  analysis::RunAnalysis run;
  analysis::RunComparison comparison;
  std::vector<BarOutcome> outcomes;  ///< refer to `scenario`, whose address RoutingResults keeps
};

/// All scenarios that were run. Plain values, independent of when and where they ran.
class RoutingResults {
 public:
  RoutingResults(spec::RoutingMode candidate, spec::RoutingMode baseline)
      : candidate_(candidate), baseline_(baseline) {}

  /// Compares the modes and evaluates the bars. Errors: those of hold_bars(), and a baseline that was not measured.
  [[nodiscard]] Result<void> add(RoutingScenario scenario, analysis::RunAnalysis run);

  /// A row per scenario: bars met, missed, open.
  [[nodiscard]] render::Table overview() const;
  /// The whole document as Markdown. `images` is the folder of the plots, relative to it.
  [[nodiscard]] std::string markdown(const std::string& images) const;
  [[nodiscard]] const std::vector<std::unique_ptr<RoutingRun>>& runs() const { return runs_; }
  /// The number of bars that hold, that do not, or that could not be evaluated.
  [[nodiscard]] std::size_t count(std::optional<bool> holds) const;

 private:
  spec::RoutingMode candidate_;
  spec::RoutingMode baseline_;
  std::vector<std::unique_ptr<RoutingRun>> runs_;  // allocated one by one, because outcomes refer to scenarios
};

/// TTFT p95 and throughput over the levels for every mode, as one SVG.
[[nodiscard]] std::string routing_plots(const RoutingRun& run);

struct RoutingResultsOptions {
  std::string manifest = "examples/routing/routing.yaml";
  std::string results;                                 ///< a folder per scenario
  std::string document = "docs/results/routing.md";    ///< Markdown to write
  std::string images = "docs/results/images/routing";  ///< folder for the plots
};
struct RoutingResultsOutcome {
  std::string table;  ///< the overview, for a terminal
  std::size_t met = 0;
  std::size_t missed = 0;
  std::size_t open = 0;
};
/// Reads the results of every scenario and writes the document. The same results give the same bytes.
[[nodiscard]] Result<RoutingResultsOutcome> write_routing_results(const RoutingResultsOptions& options);

}  // namespace kvist::laboratory
