// The samples behind the percentiles of a level, each with what it is a part of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/analysis/exact_percentiles.h"
#include "kvist/base/cluster_bootstrap.h"
#include "kvist/results/records.h"

namespace kvist::analysis {

/// What counts as one in an interval, because its samples depend on each other.
enum class SampleUnit : bool {
  kConversation,  ///< or session of a trace
  kTime,          ///< a stretch of the measuring window
};

/// By what they measure, ascending; each with the index of its unit.
struct LevelSamples {
  std::vector<std::uint64_t> names;  ///< of the units: ids, or the numbers of the stretches
  std::vector<ClusteredSample> ttft, tpot, itl, latency;
  std::vector<ClusteredSample> ttft_from_schedule, latency_from_schedule;
};

/// Of the turns that count for percentiles; of very many gaps between chunks only every so many. `stretches`: into how
/// many the window is divided.
[[nodiscard]] LevelSamples samples_of(const results::LevelRecord& level, Schedule schedule, SampleUnit unit,
                                      std::size_t stretches);

}  // namespace kvist::analysis
