// The step-time models of a run's workers: the provenance of simulated figures.
#pragma once

#include <string>
#include <vector>

#include "kvist/perfmodel/profile.h"
#include "kvist/spec/sweep.h"

namespace kvist::report {

/// Workers that share one step-time model.
struct ModelFacts {
  std::vector<std::string> workers;
  /// Title, costs, coefficients with their origin, extrapolations. Without a profile: title and costs of the plain
  /// step-time formula. If the profile cannot be read any more: the reason as title.
  perfmodel::ProfileDescription profile;
};

/// One entry per distinct model, in the order of the workers.
[[nodiscard]] std::vector<ModelFacts> model_facts(const spec::SweepSpec& sweep);

/// "70 fitted, 12 assumed": coefficients by kind of origin, most first.
[[nodiscard]] std::string origin_counts(const perfmodel::ProfileDescription& profile);

}  // namespace kvist::report
