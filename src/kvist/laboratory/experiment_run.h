// One experiment with everything that its evaluation needs, in memory.
#pragma once

#include <map>
#include <string>

#include "kvist/analysis/reference_check.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/laboratory/experiment_figures.h"
#include "kvist/laboratory/experiment_spec.h"

namespace kvist::laboratory {

struct ExperimentRun {
  Experiment experiment;
  analysis::RunAnalysis run;
  std::map<std::string, analysis::RunAnalysis> counterfactuals;  ///< by name
  analysis::ReferenceCheck check;

  [[nodiscard]] ExperimentFigures figures() const { return {check, run, counterfactuals}; }
};

/// An observation, evaluated.
struct Finding {
  const Observation* observation = nullptr;
  std::optional<bool> published;  ///< nothing if the published figures do not decide it
  std::optional<bool> simulated;
  std::string published_shows;  ///< empty if they do not decide it
  std::string simulated_shows;
  std::string mechanism;
};
[[nodiscard]] Result<std::vector<Finding>> evaluate_observations(const ExperimentRun& run);

/// The section of one experiment in Markdown, with headings from level 2. `image` is the path of its plots in the
/// document.
[[nodiscard]] Result<std::string> experiment_section(const ExperimentRun& run, const std::string& image);
/// Published and simulated curves together, the spread as a band: one SVG file.
[[nodiscard]] std::string experiment_plots(const ExperimentRun& run);

}  // namespace kvist::laboratory
