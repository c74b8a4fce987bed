// Private to analysis: what intervals over repetitions are made of.
#pragma once

#include <cstddef>
#include <vector>

#include "kvist/analysis/exact_percentiles.h"
#include "kvist/analysis/repetitions.h"
#include "kvist/base/cluster_bootstrap.h"

namespace kvist::analysis {

/// With fewer repetitions, Student's t has so few degrees of freedom that its interval says nothing.
inline constexpr std::size_t kLeastRepetitionsForT = 3;

/// The repetitions that count.
[[nodiscard]] std::vector<const Measurement*> counted_repetitions(const MeasuredLevel& level);
/// Replicate by replicate the mean over repetitions; empty if one has none.
[[nodiscard]] std::vector<float> mean_replicates(const std::vector<const Measurement*>& repetitions,
                                                 ExactPercentile percentile);
/// Of the mean of independent values, by Student's t. Requires: two values or more.
[[nodiscard]] Interval t_interval(const std::vector<double>& values);

}  // namespace kvist::analysis
