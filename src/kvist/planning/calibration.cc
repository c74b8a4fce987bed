#include "kvist/planning/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "kvist/base/statistics.h"
#include "kvist/perfmodel/coefficients.h"
#include "kvist/planning/least_squares.h"

namespace kvist::planning {
namespace {

constexpr double kLeastFactor = 0.2;
constexpr double kMostFactor = 5;
constexpr std::uint64_t kSeed = 77;  // of the search; predictions use others

/// A quantile that is fitted to, and the deviation that counts as one.
struct Target {
  std::optional<double> AnsweredRequest::* value;
  double quantile;
  double tolerance;
};
constexpr std::array kTargets = {
    Target{&AnsweredRequest::ttft_ms, 0.25, 0.05}, Target{&AnsweredRequest::ttft_ms, 0.50, 0.05},
    Target{&AnsweredRequest::ttft_ms, 0.75, 0.05}, Target{&AnsweredRequest::ttft_ms, 0.95, 0.10},
    Target{&AnsweredRequest::tpot_ms, 0.50, 0.03}, Target{&AnsweredRequest::tpot_ms, 0.95, 0.06}};

using Quantiles = std::array<std::optional<double>, kTargets.size()>;

Quantiles quantiles_of(std::span<const Answers> runs, const Places& places) {
  Quantiles found;
  for (std::size_t i = 0; i < kTargets.size(); ++i) {
    const std::vector<double> values = sorted_values(runs, places, kTargets[i].value);
    if (!values.empty()) found[i] = quantile_of_sorted(values, kTargets[i].quantile);
  }
  return found;
}

/// Calibration's factors.
constexpr std::ptrdiff_t kUnknowns = 3;

/// The factors as the search has them: shares of something, so that a step of some percent means as much for each.
struct Scale {
  double ttft_ms = 1;

  [[nodiscard]] Calibration at(const std::vector<double>& point) const {
    return {.step = point[0], .prefill = point[1], .way_in = from_milliseconds((point[2] - 1) * ttft_ms)};
  }
};

std::vector<double> residuals_of(const Quantiles& observed, const Quantiles& simulated) {
  std::vector<double> residuals;
  for (std::size_t i = 0; i < kTargets.size(); ++i) {
    if (!observed[i] || *observed[i] <= 0) continue;
    // What the simulation does not have counts as all of it.
    const double deviation = simulated[i] ? *simulated[i] / *observed[i] - 1 : -1;
    residuals.push_back(deviation / kTargets[i].tolerance);
  }
  return residuals;
}

Result<void> slow_prefill_down(spec::WorkerSpec& worker, double factor) {
  if (!worker.profile) {
    worker.step_time.per_prefill_token = from_seconds(to_seconds(worker.step_time.per_prefill_token) * factor);
    worker.step_time.per_prefill_pair_ns *= factor;
    return {};
  }
  constexpr const char* kName = "matrix_products.efficiency";
  KVIST_TRY(const perfmodel::Coefficients coefficients, perfmodel::Coefficients::of(*worker.profile));
  KVIST_TRY(const double efficiency, coefficients.get(kName));
  const perfmodel::Coefficient& bounds = *coefficients.find(kName);
  worker.profile->set[kName] = std::clamp(efficiency / factor, bounds.low, bounds.high);
  return {};
}

}  // namespace

Result<Situation> Calibration::applied_to(Situation situation) const {
  situation.way_in += way_in;
  for (spec::WorkerSpec& worker : situation.deployment.workers) {
    worker.time_scale /= step;
    KVIST_TRY_VOID(slow_prefill_down(worker, prefill));
  }
  return situation;
}

Result<Calibration> calibrate(const workload::RecordedTraffic& traffic, const Situation& situation,
                              const Places& places, const CalibrationOptions& options) {
  const std::vector<Answers> seen = {observed_answers(traffic)};
  const Quantiles observed = quantiles_of(seen, places);
  if (!observed[1] || !observed[4]) {
    return fail(ErrorCode::kInvalidArgument,
                "the record has no streamed answers of several tokens: nothing tells how fast the fleet is");
  }
  if (std::ranges::count_if(observed, [](const auto& each) { return each && *each > 0; }) < kUnknowns) {
    return fail(ErrorCode::kInvalidArgument,
                "the record's times are nearly all 0: nothing tells how fast the fleet is");
  }
  const Scale scale{.ttft_ms = *observed[1]};
  const BatchResiduals residuals =
      [&](const std::vector<std::vector<double>>& points) -> Result<std::vector<std::vector<double>>> {
    std::vector<Situation> situations;
    for (const std::vector<double>& point : points) {
      KVIST_TRY(Situation each, scale.at(point).applied_to(situation));
      situations.push_back(std::move(each));
    }
    KVIST_TRY(const auto answers, replay_all(traffic, situations, kSeed, options.seeds, options.threads));
    std::vector<std::vector<double>> all;
    for (const std::vector<Answers>& runs : answers) all.push_back(residuals_of(observed, quantiles_of(runs, places)));
    return all;
  };
  // Steps first: most of what is off, and all else is relative to them.
  KVIST_TRY(const std::vector<Answers> as_it_is, [&]() -> Result<std::vector<Answers>> {
    KVIST_TRY(auto answers, replay_all(traffic, {&situation, 1}, kSeed, options.seeds, options.threads));
    return std::move(answers.front());
  }());
  const Quantiles simulated = quantiles_of(as_it_is, places);
  const double step = simulated[4] ? std::clamp(*observed[4] / *simulated[4], kLeastFactor, kMostFactor) : 1;
  const std::vector<Variable> variables = {{.start = step, .low = kLeastFactor, .high = kMostFactor},
                                           {.start = 1, .low = kLeastFactor, .high = kMostFactor},
                                           {.start = 1.02, .low = 1, .high = 2}};
  KVIST_TRY(const LeastSquaresResult found,
            least_squares(variables, residuals, {.max_rounds = 10, .least_gain = 0.02, .progress = {}}));
  return scale.at(found.values);
}

}  // namespace kvist::planning
