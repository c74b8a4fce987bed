#include "kvist/analysis/exact_percentiles.h"

#include <algorithm>
#include <utility>

#include "kvist/analysis/level_samples.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {
namespace {

/// In the order of ExactPercentile.
std::vector<Replicates> resampled(const results::LevelRecord& level, Schedule schedule, SampleUnit unit) {
  LevelSamples samples = samples_of(level, schedule, unit, kTimeStretches);
  ClusterBootstrap bootstrap(level.seed, std::move(samples.names));
  for (const double q : {0.50, 0.95, 0.99}) bootstrap.add_quantile(samples.ttft, q);
  for (const double q : {0.50, 0.95}) bootstrap.add_quantile(samples.tpot, q);
  for (const double q : {0.50, 0.95, 0.99}) bootstrap.add_quantile(samples.itl, q);
  for (const double q : {0.50, 0.95}) bootstrap.add_quantile(samples.latency, q);
  for (const double q : {0.50, 0.95, 0.99}) bootstrap.add_quantile(samples.ttft_from_schedule, q);
  for (const double q : {0.50, 0.95}) bootstrap.add_quantile(samples.latency_from_schedule, q);
  return bootstrap.run();
}

}  // namespace

Schedule schedule_of(const spec::WorkloadSpec& workload) {
  return spec::has_schedule(workload) ? Schedule::kOpen : Schedule::kNone;
}

PercentileReplicates bootstrap_percentiles(const results::LevelRecord& level, Schedule schedule) {
  std::vector<Replicates> by_conversation = resampled(level, schedule, SampleUnit::kConversation);
  std::vector<Replicates> by_time = resampled(level, schedule, SampleUnit::kTime);
  PercentileReplicates replicates;
  for (std::size_t i = 0; i < replicates.size(); ++i) {
    replicates[i] = {.by_conversation = std::move(by_conversation[i]), .by_time = std::move(by_time[i])};
  }
  return replicates;
}

std::optional<Interval> interval_of(const ResampledPercentile& percentile) {
  const std::optional<Interval> by_conversation = interval_of(percentile.by_conversation);
  const std::optional<Interval> by_time = interval_of(percentile.by_time);
  if (!by_conversation || !by_time) return by_conversation;
  return Interval{.low = std::min(by_conversation->low, by_time->low),
                  .high = std::max(by_conversation->high, by_time->high)};
}

}  // namespace kvist::analysis
