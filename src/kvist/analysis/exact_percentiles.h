// The percentiles over all samples of a level that have confidence intervals, and the replicates behind these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/results/records.h"
#include "kvist/spec/workload.h"

namespace kvist::analysis {

/// Whether the turns of a level were due by a schedule (spec::has_schedule). If not, a turn is due when another ends,
/// and there is nothing to be late for.
enum class Schedule : bool { kNone, kOpen };
[[nodiscard]] Schedule schedule_of(const spec::WorkloadSpec& workload);

enum class ExactPercentile : std::uint8_t {
  kTtftP50,
  kTtftP95,
  kTtftP99,
  kTpotP50,
  kTpotP95,
  kItlP50,  ///< of all gaps between chunks, pooled
  kItlP95,
  kItlP99,
  kLatencyP50,
  kLatencyP95,
  kTtftFromScheduleP50,  ///< since the turn was due; only of levels with a schedule
  kTtftFromScheduleP95,
  kTtftFromScheduleP99,
  kLatencyFromScheduleP50,
  kLatencyFromScheduleP95,
};
inline constexpr std::size_t kExactPercentiles = 15;

/// For each percentile its value in every replicate of the bootstrap; empty if there are too few samples for one
/// (base/cluster_bootstrap.h).
using PercentileReplicates = std::array<std::vector<float>, kExactPercentiles>;

/// Resamples the conversations of a level, or the sessions of a trace, because turns of one conversation share a cache
/// and their latencies are not independent. Replicate i of one level and replicate i of another with the same seed give
/// the same weights to the same conversations, so that differences of replicates are paired.
[[nodiscard]] PercentileReplicates bootstrap_percentiles(const results::LevelRecord& level,
                                                         Schedule schedule = Schedule::kNone);

}  // namespace kvist::analysis
