// What model of time a run's workers stand on: the part of a simulated figure's provenance that matters.
#pragma once

#include <string>
#include <vector>

#include "kvist/perfmodel/profile.h"
#include "kvist/spec/sweep.h"

namespace kvist::report {

/// Workers that share one model of time.
struct ModelFacts {
  std::vector<std::string> workers;
  /// Title, costs, coefficients with their origin, extrapolations. Where no profile is named: title and costs of the
  /// plain step-time formula. Where it cannot be read any more (a file that is gone): the reason as title.
  perfmodel::ProfileDescription profile;
};

/// One entry per distinct model, in the order of the workers.
[[nodiscard]] std::vector<ModelFacts> model_facts(const spec::SweepSpec& sweep);

/// "70 fitted, 12 assumed": coefficients by kind of origin, most first.
[[nodiscard]] std::string origin_counts(const perfmodel::ProfileDescription& profile);

}  // namespace kvist::report
