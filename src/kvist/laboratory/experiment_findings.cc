#include <fmt/format.h>

#include <cmath>

#include "kvist/laboratory/experiment_run.h"

namespace kvist::laboratory {
namespace {

Result<std::optional<bool>> holds(const std::string& predicate, const Figures& figures) {
  KVIST_TRY(const std::optional<double> value, evaluate(predicate, figures));
  return value ? std::optional(std::abs(*value) > 0) : std::nullopt;
}

Result<Finding> find(const Observation& observation, const ExperimentFigures& figures) {
  const Figures simulated = figures.of(ExperimentFigures::Side::kSimulated);
  Finding finding;
  finding.observation = &observation;
  KVIST_TRY(finding.simulated, holds(observation.holds_if, simulated));
  KVIST_TRY(finding.simulated_shows, fill_in(observation.shows, simulated));
  KVIST_TRY(finding.mechanism, fill_in(observation.mechanism, simulated));
  if (!observation.on_published) return finding;
  const Figures published = figures.of(ExperimentFigures::Side::kPublished);
  KVIST_TRY(finding.published, holds(observation.holds_if, published));
  if (finding.published) {
    KVIST_TRY(finding.published_shows, fill_in(observation.shows, published));
  }
  return finding;
}

}  // namespace

Result<std::vector<Finding>> evaluate_observations(const ExperimentRun& run) {
  const ExperimentFigures figures = run.figures();
  std::vector<Finding> findings;
  for (const Observation& observation : run.experiment.observations) {
    Result<Finding> finding = find(observation, figures);
    if (!finding) {
      return std::unexpected(
          std::move(finding).error().in(fmt::format("{}: observation {}", run.experiment.name, observation.id)));
    }
    findings.push_back(*std::move(finding));
  }
  return findings;
}

}  // namespace kvist::laboratory
