#include "kvist/planning/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/planning/least_squares.h"
#include "kvist/sweep/parallel.h"

namespace kvist::planning {
namespace {

using Point = std::vector<double>;

bool is_compared(const MeasuredFigures& level, Metric metric) {
  return tolerance_of(metric) && level.figures[metric] && *level.figures[metric] > 0;
}

/// The mean of each figure over the seeds that have it.
LevelFigures mean_of(const std::vector<LevelFigures>& samples) {
  LevelFigures mean;
  for (const Metric metric : kMetrics) {
    double sum = 0;
    std::size_t count = 0;
    for (const LevelFigures& sample : samples) {
      if (!sample[metric]) continue;
      sum += *sample[metric];
      ++count;
    }
    if (count > 0) mean[metric] = sum / static_cast<double>(count);
  }
  return mean;
}

/// Computes levels at points, everything at once.
class FigureSource {
 public:
  FigureSource(const LevelEvaluator& evaluator, const FitProblem& problem, const FitOptions& options)
      : evaluator_(evaluator), problem_(problem), options_(options) {}

  /// figures[point][level], with the repetitions of a level from `first` on.
  Result<std::vector<std::vector<LevelFigures>>> at(const std::vector<Point>& points,
                                                    const std::vector<MeasuredFigures>& levels, std::uint32_t first,
                                                    std::size_t seeds) {
    std::vector<spec::SweepSpec> sweeps;
    sweeps.reserve(points.size());
    for (const Point& point : points) sweeps.push_back(problem_.apply(problem_.sweep, point));
    std::vector<Result<LevelSample>> found(points.size() * levels.size() * seeds);
    sweep::for_each_index(found.size(), options_.threads, [&](std::size_t i) {
      const MeasuredFigures& level = levels[i / seeds % levels.size()];
      const spec::SweepSpec& sweep = sweeps[i / seeds / levels.size()];
      const auto seed = level_seed(sweep, level.users, first + static_cast<std::uint32_t>(i % seeds));
      found[i] = evaluator_.evaluate(sweep, {.mode = level.mode, .concurrency = level.users, .seed = seed});
    });
    evaluations_ += found.size();
    std::vector<std::vector<LevelFigures>> figures(points.size());
    std::vector<LevelFigures> samples;
    for (std::size_t i = 0; i < found.size(); ++i) {
      KVIST_TRY(const LevelSample sample, std::move(found[i]));
      samples.push_back(sample.figures);
      if (samples.size() < seeds) continue;
      figures[i / seeds / levels.size()].push_back(mean_of(samples));
      samples.clear();
    }
    return figures;
  }

  [[nodiscard]] std::uint64_t evaluations() const { return evaluations_; }

 private:
  const LevelEvaluator& evaluator_;
  const FitProblem& problem_;
  const FitOptions& options_;
  std::uint64_t evaluations_ = 0;
};

/// A figure that the model does not have counts as a deviation of 100 %.
std::vector<double> residuals_of(const std::vector<MeasuredFigures>& levels,
                                 const std::vector<LevelFigures>& computed) {
  std::vector<double> residuals;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    for (const Metric metric : kMetrics) {
      if (!is_compared(levels[i], metric)) continue;
      const double measured = *levels[i].figures[metric];
      const double deviation = computed[i][metric] ? *computed[i][metric] / measured - 1 : -1;
      residuals.push_back(deviation / *tolerance_of(metric));
    }
  }
  return residuals;
}

Result<void> check(const FitProblem& problem, const FitOptions& options) {
  const auto wrong = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  if (problem.parameters.empty()) return wrong("no coefficient to fit");
  if (options.seeds == 0) return wrong("at least one seed per level is needed");
  std::set<std::string> names;
  for (const FreeParameter& p : problem.parameters) {
    if (!names.insert(p.name).second) return wrong(fmt::format("coefficient {} is named twice", p.name));
    if (!(p.low <= p.start && p.start <= p.high)) {
      return wrong(fmt::format("coefficient {} starts at {}, outside of {} to {}", p.name, p.start, p.low, p.high));
    }
  }
  std::size_t figures = 0;
  for (const MeasuredFigures& level : problem.levels.fitted) {
    for (const Metric metric : kMetrics) figures += is_compared(level, metric) ? 1 : 0;
  }
  if (figures >= problem.parameters.size()) return {};
  return wrong(fmt::format("{} measured figures cannot determine {} coefficients: fit fewer, or more levels", figures,
                           problem.parameters.size()));
}

/// Points spread over half to twice each start value (over a tenth of the bounds where that is 0), each variable once
/// in each of as many strata as there are points (a Latin hypercube).
std::vector<Point> spread_points(const std::vector<FreeParameter>& parameters, std::uint32_t count) {
  std::vector<Point> points(count, Point(parameters.size()));
  for (std::size_t v = 0; v < parameters.size(); ++v) {
    const FreeParameter& p = parameters[v];
    RandomStream random(mix_seed({seed_part("scan"), v, count}));
    std::vector<std::uint32_t> strata(count);
    for (std::uint32_t i = 0; i < count; ++i) strata[i] = i;
    for (std::uint32_t i = count; i-- > 1;) {
      std::swap(strata[i], strata[static_cast<std::size_t>(random.uniform_int(0, i))]);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      const double share = (strata[i] + random.uniform()) / count;
      const double value = p.start != 0 ? p.start * std::exp2(2 * share - 1) : p.low + 0.1 * share * (p.high - p.low);
      points[i][v] = std::clamp(value, p.low, p.high);
    }
  }
  return points;
}

/// The best of the start and the points around it.
Result<Point> best_start(FigureSource& source, const FitProblem& problem, const FitOptions& options,
                         const Point& start) {
  if (options.scan_points == 0) return start;
  std::vector<Point> points = spread_points(problem.parameters, options.scan_points);
  points.insert(points.begin(), start);
  KVIST_TRY(const auto figures, source.at(points, problem.levels.fitted, 0, 1));
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double objective = mean_square(residuals_of(problem.levels.fitted, figures[i]));
    if (objective >= least) continue;
    least = objective;
    best = i;
  }
  return points[best];
}

FittedParameter fitted_parameter(const FitProblem& problem, const LeastSquaresResult& found, std::size_t i) {
  const FreeParameter& p = problem.parameters[i];
  constexpr double kTied = 0.9;
  FittedParameter fitted{.parameter = p,
                         .value = found.values[i],
                         .standard_error = found.standard_errors[i],
                         .at_bound = found.values[i] <= p.low || found.values[i] >= p.high,
                         .tied_to = {}};
  for (std::size_t j = 0; j < problem.parameters.size(); ++j) {
    const double correlation = found.correlations[i][j];
    if (i == j || std::abs(correlation) < std::max(kTied, std::abs(fitted.correlation))) continue;
    fitted.correlation = correlation;
    fitted.tied_to = problem.parameters[j].name;
  }
  return fitted;
}

}  // namespace

std::optional<double> tolerance_of(Metric metric) {
  switch (metric) {
    case Metric::kTpotP50:
    case Metric::kTpotP95:
    case Metric::kThroughput:
      return 0.05;
    case Metric::kLatencyP50:
    case Metric::kLatencyP95:
    case Metric::kTurnRate:
      return 0.07;
    case Metric::kTtftP50:
      return 0.10;
    case Metric::kTtftP95:
      return 0.20;
    case Metric::kErrorPct:
    case Metric::kHitRatePct:
      return std::nullopt;
  }
  return std::nullopt;
}

FittedParameter::Determined FittedParameter::determined() const {
  const double size = std::abs(value);
  if (!std::isfinite(standard_error) || size == 0) return Determined::kNot;
  if (standard_error <= 0.1 * size) return Determined::kWell;
  return standard_error <= 0.5 * size ? Determined::kRoughly : Determined::kNot;
}

MetricError error_of(const FitResult& result, Metric metric, bool held_out) {
  MetricError error;
  for (const LevelComparison& level : result.levels) {
    if (level.held_out != held_out || !is_compared(level.measured, metric)) continue;
    if (!level.before[metric] || !level.after[metric]) continue;
    const double measured = *level.measured.figures[metric];
    error.before_pct += 100 * std::abs(*level.before[metric] / measured - 1);
    error.after_pct += 100 * std::abs(*level.after[metric] / measured - 1);
    ++error.levels;
  }
  if (error.levels > 0) {
    error.before_pct /= static_cast<double>(error.levels);
    error.after_pct /= static_cast<double>(error.levels);
  }
  return error;
}

Result<FitResult> fit(const LevelEvaluator& evaluator, const FitProblem& problem, const FitOptions& options) {
  KVIST_TRY_VOID(check(problem, options));
  FigureSource source(evaluator, problem, options);
  const std::vector<MeasuredFigures>& fitted = problem.levels.fitted;
  Point start;
  for (const FreeParameter& p : problem.parameters) start.push_back(p.start);
  KVIST_TRY(const Point from, best_start(source, problem, options, start));
  std::vector<Variable> variables;
  for (std::size_t i = 0; i < from.size(); ++i) {
    variables.push_back({.start = from[i], .low = problem.parameters[i].low, .high = problem.parameters[i].high});
  }
  const BatchResiduals residuals = [&](const std::vector<Point>& points) -> Result<std::vector<std::vector<double>>> {
    KVIST_TRY(const auto figures, source.at(points, fitted, 0, options.seeds));
    std::vector<std::vector<double>> all;
    for (const auto& at_point : figures) all.push_back(residuals_of(fitted, at_point));
    return all;
  };
  KVIST_TRY(const LeastSquaresResult found, least_squares(variables, residuals, options.search));

  FitResult result{.parameters = {}, .levels = {}, .rounds = found.rounds};
  for (std::size_t i = 0; i < problem.parameters.size(); ++i) {
    result.parameters.push_back(fitted_parameter(problem, found, i));
  }
  for (const bool held_out : {false, true}) {
    const std::vector<MeasuredFigures>& levels = held_out ? problem.levels.held_out : fitted;
    if (levels.empty()) continue;
    // Uses seeds that the search has not used, because a search finds the luckiest point for its own seeds.
    KVIST_TRY(const auto figures, source.at({start, found.values}, levels, options.seeds, options.seeds));
    if (!held_out) {
      result.objective_before = mean_square(residuals_of(levels, figures[0]));
      result.objective_after = mean_square(residuals_of(levels, figures[1]));
    }
    for (std::size_t i = 0; i < levels.size(); ++i) {
      result.levels.push_back({levels[i], held_out, figures[0][i], figures[1][i]});
    }
  }
  result.levels_simulated = source.evaluations();
  return result;
}

}  // namespace kvist::planning
