#include "kvist/planning/profile_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace kvist::planning {
namespace {

using perfmodel::Coefficient;
using perfmodel::Coefficients;

Result<void> need_one_engine(const spec::SweepSpec& sweep) {
  const std::vector<spec::WorkerSpec>& workers = sweep.deployment.workers;
  for (const spec::WorkerSpec& worker : workers) {
    if (!worker.profile) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("{} has no profile, so it has no coefficients to fit: give it `profile: {{...}}`", worker.name));
    }
    const spec::ProfileSpec& first = *workers.front().profile;
    if (worker.profile->engine == first.engine && worker.profile->file == first.file) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} and {} have different engine behaviours; a fit is of one",
                                                         workers.front().name, worker.name));
  }
  return {};
}

Result<FreeParameter> free_parameter(const Coefficients& coefficients, const std::string& name) {
  KVIST_TRY(const double value, coefficients.get(name));
  const Coefficient& c = *coefficients.find(name);
  if (c.unit == "switch") {
    return fail(ErrorCode::kInvalidArgument, fmt::format("--free: {} is a switch: there is nothing to fit", name));
  }
  return FreeParameter{.name = name, .unit = c.unit, .start = value, .low = c.low, .high = c.high};
}

/// "40, 60 and 80": distinct users, ascending.
std::string levels_text(const std::vector<MeasuredFigures>& levels) {
  std::vector<std::uint32_t> users;
  for (const MeasuredFigures& level : levels) {
    if (users.empty() || users.back() != level.users) users.push_back(level.users);
  }
  return fmt::format("{}", fmt::join(users, " "));
}

}  // namespace

Result<spec::SweepSpec> with_engine(spec::SweepSpec sweep, const std::string& profile) {
  for (spec::WorkerSpec& worker : sweep.deployment.workers) {
    if (!worker.profile) break;  // profile_problem() says so
    if (profile.ends_with(".yaml") || profile.ends_with(".yml")) {
      worker.profile->file = profile;
    } else {
      worker.profile->engine = profile;
      worker.profile->file.clear();
    }
  }
  KVIST_TRY_VOID(need_one_engine(sweep));
  KVIST_TRY_VOID(Coefficients::of(*sweep.deployment.workers.front().profile));
  return sweep;
}

Result<FitProblem> profile_problem(const spec::SweepSpec& sweep, const std::vector<std::string>& names,
                                   FitSplit levels) {
  KVIST_TRY_VOID(need_one_engine(sweep));
  KVIST_TRY(const Coefficients coefficients, Coefficients::of(*sweep.deployment.workers.front().profile));
  FitProblem problem{.sweep = sweep, .parameters = {}, .apply = {}, .levels = std::move(levels)};
  for (const std::string& name : names.empty() ? coefficients.free_names() : names) {
    KVIST_TRY(FreeParameter parameter, free_parameter(coefficients, name));
    problem.parameters.push_back(std::move(parameter));
  }
  std::vector<std::string> order;
  for (const FreeParameter& parameter : problem.parameters) order.push_back(parameter.name);
  problem.apply = [order](const spec::SweepSpec& base, const std::vector<double>& values) {
    spec::SweepSpec changed = base;
    for (spec::WorkerSpec& worker : changed.deployment.workers) {
      for (std::size_t i = 0; i < order.size(); ++i) worker.profile->set[order[i]] = values[i];
    }
    return changed;
  };
  return problem;
}

Result<Coefficients> fitted_coefficients(const FitProblem& problem, const FitResult& result,
                                         const std::string& source) {
  const spec::ProfileSpec& profile = *problem.sweep.deployment.workers.front().profile;
  KVIST_TRY(Coefficients coefficients, Coefficients::of(profile));
  std::string text = fmt::format("{}, levels {}", source, levels_text(problem.levels.fitted));
  if (!problem.levels.held_out.empty()) {
    text += fmt::format("; held out {}", levels_text(problem.levels.held_out));
  }
  for (const FittedParameter& fitted : result.parameters) {
    std::string origin = text;
    switch (fitted.determined()) {
      case FittedParameter::Determined::kWell:
        origin += fmt::format("; +- {:.2g} {}", fitted.standard_error, fitted.parameter.unit);
        break;
      case FittedParameter::Determined::kRoughly:
        origin += fmt::format("; roughly, +- {:.2g} {}", fitted.standard_error, fitted.parameter.unit);
        break;
      case FittedParameter::Determined::kNot:
        origin += "; these levels do not tell it";
        break;
    }
    KVIST_TRY_VOID(coefficients.set(fitted.parameter.name, fitted.value,
                                    {.kind = perfmodel::OriginKind::kFitted, .text = std::move(origin)}));
    KVIST_TRY_VOID(coefficients.set_free(fitted.parameter.name, true));
  }
  coefficients.set_title(coefficients.title() + ", fitted to " + source);
  coefficients.set_fitted_on({.gpu = profile.gpu, .model = profile.model, .tensor_parallel = profile.tensor_parallel});
  return coefficients;
}

}  // namespace kvist::planning
