// The percentiles over all samples of a level that have confidence intervals, and the replicates behind these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kvist/base/cluster_bootstrap.h"
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

/// The replicates of a percentile; empty if there are too few samples for one (base/cluster_bootstrap.h).
struct ResampledPercentile {
  Replicates by_conversation = {};  ///< or by session of a trace
  Replicates by_time = {};          ///< by stretch of the measuring window: kTimeStretches of equal length

  friend bool operator==(const ResampledPercentile&, const ResampledPercentile&) = default;
};
using PercentileReplicates = std::array<ResampledPercentile, kExactPercentiles>;

/// Long against what a queue remembers, and many enough to tell how they differ.
inline constexpr std::size_t kTimeStretches = 20;

/// Resamples the conversations of a level, or the sessions of a trace, because turns of one conversation share a cache,
/// and stretches of time, because turns that come at about the same time wait in the same queue: neither latencies are
/// independent. Replicate i of one level and replicate i of another with the same seed give the same weights to the
/// same conversations, and to the same stretches, so that differences of replicates are paired.
[[nodiscard]] PercentileReplicates bootstrap_percentiles(const results::LevelRecord& level,
                                                         Schedule schedule = Schedule::kNone);

/// The interval that contains those by conversation and by time: each leaves out what the other has. Nothing without
/// that by conversation.
[[nodiscard]] std::optional<Interval> interval_of(const ResampledPercentile& percentile);

}  // namespace kvist::analysis
