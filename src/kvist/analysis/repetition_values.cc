#include "kvist/analysis/repetition_values.h"

#include <algorithm>
#include <cmath>

#include "kvist/analysis/paired.h"
#include "kvist/base/statistics.h"
#include "kvist/base/student_t.h"

namespace kvist::analysis {

std::vector<const Measurement*> counted_repetitions(const MeasuredLevel& level) {
  std::vector<const Measurement*> all;
  for (const Measurement& repetition : level.repetitions) {
    if (level.counts(repetition)) all.push_back(&repetition);
  }
  return all;
}

std::vector<float> mean_replicates(const std::vector<const Measurement*>& repetitions, ExactPercentile percentile) {
  std::vector<float> means;
  for (const Measurement* repetition : repetitions) {
    const std::vector<float>& own = repetition->analysis.replicates[static_cast<std::size_t>(percentile)];
    if (own.empty()) return {};
    if (means.empty()) means.assign(own.size(), 0);
    means.resize(std::min(means.size(), own.size()));
    for (std::size_t i = 0; i < means.size(); ++i) means[i] += own[i] / static_cast<float>(repetitions.size());
  }
  return means;
}

std::vector<float> common_replicates(const std::vector<const Measurement*>& repetitions, ExactPercentile percentile,
                                     bool same_requests) {
  if (!same_requests) return mean_replicates(repetitions, percentile);
  std::vector<float> all;
  for (const Measurement* repetition : repetitions) {
    const std::vector<float>& own = repetition->analysis.replicates[static_cast<std::size_t>(percentile)];
    if (own.empty()) return {};
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

Interval t_interval(const std::vector<double>& values) {
  const Distribution d = describe(values);
  const double half = student_t_quantile(0.5 + kPairedConfidence / 2, d.count - 1) * d.standard_deviation /
                      std::sqrt(static_cast<double>(d.count));
  return {.low = d.mean - half, .high = d.mean + half};
}

}  // namespace kvist::analysis
