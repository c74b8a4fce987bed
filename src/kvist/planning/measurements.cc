#include "kvist/planning/measurements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "kvist/analysis/reference_data.h"

namespace kvist::planning {
namespace {

using spec::RoutingMode;

bool names_mode(const spec::SweepSpec& sweep, RoutingMode mode) {
  return std::ranges::find(sweep.modes, mode) != sweep.modes.end();
}

void sort_levels(std::vector<MeasuredFigures>& levels) {
  std::ranges::stable_sort(levels, {}, [](const MeasuredFigures& level) { return std::pair(level.users, level.mode); });
}

bool contains(const std::vector<std::uint32_t>& levels, std::uint32_t users) {
  return std::ranges::find(levels, users) != levels.end();
}

Result<void> check_measured(const Measurements& measurements, const std::vector<std::uint32_t>& asked,
                            std::string_view option) {
  std::set<std::uint32_t> measured;
  for (const MeasuredFigures& level : measurements.levels) measured.insert(level.users);
  for (const std::uint32_t users : asked) {
    if (measured.contains(users)) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {} has no level {}; it has {}", option,
                                                         measurements.source, users, fmt::join(measured, ", ")));
  }
  return {};
}

}  // namespace

Result<Measurements> load_reference_figures(const std::string& path, const spec::SweepSpec& sweep) {
  KVIST_TRY(const analysis::Reference reference, analysis::load_reference(path));
  Measurements measurements{.source = reference.name, .sweep = sweep, .levels = {}};
  for (const analysis::ReferenceFigures& published : reference.levels) {
    MeasuredFigures level{.mode = published.mode, .users = published.concurrency, .figures = {}};
    if (level.mode == RoutingMode::kKv && names_mode(sweep, RoutingMode::kDynamo)) level.mode = RoutingMode::kDynamo;
    if (!names_mode(sweep, level.mode)) continue;
    for (const Metric metric : kMetrics) level.figures[metric] = published.figure(analysis::figure_of(metric));
    measurements.levels.push_back(level);
  }
  if (measurements.levels.empty()) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: no measured level in a mode of the sweep", path));
  }
  sort_levels(measurements.levels);
  return measurements;
}

Result<Measurements> run_figures(const analysis::RunAnalysis& run, std::string source,
                                 const std::optional<spec::SweepSpec>& sweep) {
  Measurements measurements{.source = std::move(source), .sweep = sweep.value_or(run.sweep()), .levels = {}};
  for (const analysis::MeasuredLevel& level : run.levels()) {
    const std::optional<RoutingMode> mode = level.analysis.mode.mode();
    if (!mode || !names_mode(measurements.sweep, *mode)) continue;
    measurements.levels.push_back(
        {.mode = *mode, .users = level.analysis.concurrency, .figures = figures_of(level.analysis)});
  }
  if (measurements.levels.empty()) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: no measured level in a mode of the sweep", measurements.source));
  }
  sort_levels(measurements.levels);
  return measurements;
}

Result<FitSplit> split_levels(const Measurements& measurements, const std::vector<std::uint32_t>& fit_levels,
                              const std::vector<std::uint32_t>& held_out_levels) {
  KVIST_TRY_VOID(check_measured(measurements, fit_levels, "--fit-levels"));
  KVIST_TRY_VOID(check_measured(measurements, held_out_levels, "--hold-out"));
  for (const std::uint32_t users : held_out_levels) {
    if (!contains(fit_levels, users)) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--hold-out: level {} is fitted to as well: what a fit has seen cannot test it", users));
  }
  FitSplit split;
  for (const MeasuredFigures& level : measurements.levels) {
    if (contains(held_out_levels, level.users)) {
      split.held_out.push_back(level);
    } else if (fit_levels.empty() || contains(fit_levels, level.users)) {
      split.fitted.push_back(level);
    }
  }
  if (split.fitted.empty()) return fail(ErrorCode::kInvalidArgument, "no level is left to fit to");
  return split;
}

}  // namespace kvist::planning
