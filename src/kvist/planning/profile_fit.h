// A fit of a GPU profile: which coefficients are free, what comes out as a profile file and as tables.
#pragma once

#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/perfmodel/coefficients.h"
#include "kvist/planning/fit.h"

namespace kvist::planning {

/// The sweep with all workers on another engine behaviour: a name that kvist carries ("trtllm"), or a profile file
/// (*.yaml). Errors: a worker without a profile has no coefficients to fit.
[[nodiscard]] Result<spec::SweepSpec> with_engine(spec::SweepSpec sweep, const std::string& profile);

/// The problem of fitting `names` (empty: those the profile marks as free) of the workers' engine behaviour to the
/// split levels. Errors: unknown names, with those there are; switches; workers with different engine behaviours.
[[nodiscard]] Result<FitProblem> profile_problem(const spec::SweepSpec& sweep, const std::vector<std::string>& names,
                                                 FitSplit levels);

/// The engine behaviour with the fitted values, each with an origin that names the measurement and the levels it saw.
[[nodiscard]] Result<perfmodel::Coefficients> fitted_coefficients(const FitProblem& problem, const FitResult& result,
                                                                  const std::string& source);

/// For a terminal: coefficients before and after with how well the data tell them; the error per metric, fitted and
/// held out; every level.
[[nodiscard]] std::string fit_text(const FitProblem& problem, const FitResult& result, const std::string& source);
/// One object; docs/guide/fitting.md describes its keys.
[[nodiscard]] std::string fit_json(const FitProblem& problem, const FitResult& result, const std::string& source);

}  // namespace kvist::planning
