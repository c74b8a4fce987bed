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
/// The replicates behind an interval over the repetitions of a level: their means, if each repetition has conversations
/// of its own; empty if one has none. Those of the same requests are put one after the other: the mean of several
/// resamplings of the same conversations would scatter less than the conversations do.
[[nodiscard]] ResampledPercentile common_replicates(const std::vector<const Measurement*>& repetitions,
                                                    ExactPercentile percentile, bool same_requests);
/// The interval of the change from one to the other, in percent of `before`, replicate by replicate.
[[nodiscard]] std::optional<Interval> interval_of_percent(const ResampledPercentile& before,
                                                          const ResampledPercentile& after);
/// Of the mean of independent values, by Student's t. Requires: two values or more.
[[nodiscard]] Interval t_interval(const std::vector<double>& values);

}  // namespace kvist::analysis
