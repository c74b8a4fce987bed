#include "kvist/analysis/paired.h"

#include <cmath>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/statistics.h"
#include "kvist/base/student_t.h"

namespace kvist::analysis {
namespace {

/// The interval of the mean of independent samples.
PairedChange interval_of(std::vector<double> samples) {
  const Distribution d = describe(std::move(samples));
  PairedChange change{.pairs = d.count, .estimate = d.mean};
  if (d.count < 2) return change;
  const double quantile = student_t_quantile(0.5 + kPairedConfidence / 2, d.count - 1);
  const double half = quantile * d.standard_deviation / std::sqrt(static_cast<double>(d.count));
  change.low = d.mean - half;
  change.high = d.mean + half;
  return change;
}

}  // namespace

PairedChange paired_ratio(std::span<const double> baseline, std::span<const double> candidate) {
  KVIST_CHECK(!baseline.empty() && baseline.size() == candidate.size(), "pairs, at least one");
  std::vector<double> logarithms;
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    KVIST_CHECK(baseline[i] > 0 && candidate[i] > 0, "ratios are of values above 0");
    logarithms.push_back(std::log(candidate[i] / baseline[i]));
  }
  const PairedChange change = interval_of(std::move(logarithms));
  return {.pairs = change.pairs,
          .estimate = std::exp(change.estimate),
          .low = std::exp(change.low),
          .high = std::exp(change.high)};
}

PairedChange paired_difference(std::span<const double> baseline, std::span<const double> candidate) {
  KVIST_CHECK(!baseline.empty() && baseline.size() == candidate.size(), "pairs, at least one");
  std::vector<double> differences;
  for (std::size_t i = 0; i < baseline.size(); ++i) differences.push_back(candidate[i] - baseline[i]);
  return interval_of(std::move(differences));
}

PairedChange mean_change(std::vector<double> changes) {
  KVIST_CHECK(!changes.empty(), "changes, at least one");
  return interval_of(std::move(changes));
}

std::optional<double> minimum_detectable(const PairedChange& change, bool is_ratio) {
  if (change.pairs < 2) return std::nullopt;
  const double half = is_ratio ? std::log(change.high / change.low) / 2 : (change.high - change.low) / 2;
  const double found = student_t_quantile(0.5 + kPairedConfidence / 2, change.pairs - 1);
  const double missed = student_t_quantile(kDetectionPower, change.pairs - 1);
  const double effect = half * (found + missed) / found;
  if (!std::isfinite(effect)) return std::nullopt;
  return is_ratio ? 100 * (std::exp(effect) - 1) : effect;
}

double minimum_detectable(double half_width) {
  constexpr double kFound = 1.959964;   // the normal distribution's quantile at 0.975
  constexpr double kMissed = 0.841621;  // at kDetectionPower
  return half_width * (kFound + kMissed) / kFound;
}

PairedVerdict verdict_of(const PairedChange& change, double no_change, bool less_is_better) {
  if (change.pairs < 2) return PairedVerdict::kOpen;
  if (change.high < no_change) return less_is_better ? PairedVerdict::kBetter : PairedVerdict::kWorse;
  if (change.low > no_change) return less_is_better ? PairedVerdict::kWorse : PairedVerdict::kBetter;
  return PairedVerdict::kEqual;
}

}  // namespace kvist::analysis
