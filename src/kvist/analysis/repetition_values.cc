#include "kvist/analysis/repetition_values.h"

#include <algorithm>
#include <cmath>

#include "kvist/analysis/paired.h"
#include "kvist/base/statistics.h"
#include "kvist/base/student_t.h"

namespace kvist::analysis {
namespace {

std::size_t size_of(const Replicates* part) {
  return part->values.size();
}

bool any_empty(const std::vector<const Replicates*>& parts) {
  return std::ranges::any_of(parts, [](const Replicates* part) { return part->empty(); });
}

/// Replicate by replicate the mean over independent parts.
Replicates mean_replicates(const std::vector<const Replicates*>& parts) {
  if (parts.empty() || any_empty(parts)) return {};
  Replicates mean{.values = std::vector<float>(size_of(std::ranges::min(parts, {}, size_of))), .freedom = 0};
  for (const Replicates* part : parts) {
    for (std::size_t i = 0; i < mean.values.size(); ++i) {
      mean.values[i] += part->values[i] / static_cast<float>(parts.size());
    }
    mean.freedom += part->freedom;
  }
  return mean;
}

/// One after the other.
Replicates joined_replicates(const std::vector<const Replicates*>& parts) {
  if (parts.empty() || any_empty(parts)) return {};
  Replicates all{.values = {}, .freedom = parts.front()->freedom};
  for (const Replicates* part : parts) {
    all.values.insert(all.values.end(), part->values.begin(), part->values.end());
    all.freedom = std::min(all.freedom, part->freedom);
  }
  return all;
}

Replicates percent_changes(const Replicates& before, const Replicates& after) {
  Replicates changes{.values = {}, .freedom = std::min(before.freedom, after.freedom)};
  for (std::size_t i = 0; i < std::min(before.values.size(), after.values.size()); ++i) {
    changes.values.push_back((after.values[i] / before.values[i] - 1) * 100);
  }
  return changes;
}

}  // namespace

std::vector<const Measurement*> counted_repetitions(const MeasuredLevel& level) {
  std::vector<const Measurement*> all;
  for (const Measurement& repetition : level.repetitions) {
    if (level.counts(repetition)) all.push_back(&repetition);
  }
  return all;
}

ResampledPercentile common_replicates(const std::vector<const Measurement*>& repetitions, ExactPercentile percentile,
                                      bool same_requests) {
  ResampledPercentile common;
  for (const auto unit : {&ResampledPercentile::by_conversation, &ResampledPercentile::by_time}) {
    std::vector<const Replicates*> parts;
    for (const Measurement* repetition : repetitions) {
      parts.push_back(&(repetition->analysis.replicates[static_cast<std::size_t>(percentile)].*unit));
    }
    common.*unit = same_requests ? joined_replicates(parts) : mean_replicates(parts);
  }
  return common;
}

std::optional<Interval> interval_of_percent(const ResampledPercentile& before, const ResampledPercentile& after) {
  return interval_of(
      ResampledPercentile{.by_conversation = percent_changes(before.by_conversation, after.by_conversation),
                          .by_time = percent_changes(before.by_time, after.by_time)});
}

Interval t_interval(const std::vector<double>& values) {
  const Distribution d = describe(values);
  const double half = student_t_quantile(0.5 + kPairedConfidence / 2, d.count - 1) * d.standard_deviation /
                      std::sqrt(static_cast<double>(d.count));
  return {.low = d.mean - half, .high = d.mean + half};
}

}  // namespace kvist::analysis
