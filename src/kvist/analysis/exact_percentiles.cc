#include "kvist/analysis/exact_percentiles.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "kvist/analysis/level_analysis.h"
#include "kvist/base/cluster_bootstrap.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {
namespace {

using workload::TurnSample;

/// The samples of a level by what they measure, each with the index of its conversation.
struct LevelSamples {
  std::vector<std::uint64_t> conversations;  // their names; of a trace those of its sessions
  std::vector<ClusteredSample> ttft, tpot, itl, latency;
  std::vector<ClusteredSample> ttft_from_schedule, latency_from_schedule;
};

/// If there are more gaps than this, every second or third or so is resampled, which bounds memory and time. The
/// percentiles themselves are over all gaps; their variation depends far more on the conversations than on the number
/// of gaps of each.
constexpr std::size_t kMostGaps = 4'000'000;

std::size_t gap_stride(const results::LevelRecord& level) {
  std::size_t gaps = 0;
  for (const TurnSample& turn : level.turns) gaps += counts_for_percentiles(level, turn) ? turn.gaps_ms.size() : 0;
  return 1 + gaps / kMostGaps;
}

void add(std::vector<ClusteredSample>& samples, double value, std::uint32_t cluster) {
  if (std::isfinite(value)) samples.push_back({static_cast<float>(value), cluster});
}

LevelSamples samples_of(const results::LevelRecord& level, Schedule schedule) {
  LevelSamples samples;
  const std::size_t stride = gap_stride(level);
  std::size_t gaps = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> indices;  // only looked up, never iterated
  for (const TurnSample& turn : level.turns) {
    if (!counts_for_percentiles(level, turn)) continue;
    const std::uint64_t name = turn.session_or_conversation().value();
    const auto [entry, is_new] = indices.try_emplace(name, static_cast<std::uint32_t>(samples.conversations.size()));
    if (is_new) samples.conversations.push_back(name);
    const std::uint32_t cluster = entry->second;
    add(samples.latency, turn.latency_ms(), cluster);
    if (schedule == Schedule::kOpen) {
      add(samples.latency_from_schedule, turn.latency_from_schedule_ms(), cluster);
      if (has_first_token(turn)) add(samples.ttft_from_schedule, turn.ttft_from_schedule_ms(), cluster);
    }
    if (!has_first_token(turn)) continue;
    add(samples.ttft, turn.ttft_ms(), cluster);
    if (const std::optional<double> tpot = turn.tpot_ms()) add(samples.tpot, *tpot, cluster);
    for (const float gap : turn.gaps_ms) {
      if (gaps++ % stride == 0) add(samples.itl, static_cast<double>(gap), cluster);
    }
  }
  for (auto* const list : {&samples.ttft, &samples.tpot, &samples.itl, &samples.latency, &samples.ttft_from_schedule,
                           &samples.latency_from_schedule}) {
    std::ranges::sort(*list, {}, &ClusteredSample::value);
  }
  return samples;
}

}  // namespace

Schedule schedule_of(const spec::WorkloadSpec& workload) {
  return spec::has_schedule(workload) ? Schedule::kOpen : Schedule::kNone;
}

PercentileReplicates bootstrap_percentiles(const results::LevelRecord& level, Schedule schedule) {
  LevelSamples samples = samples_of(level, schedule);
  ClusterBootstrap bootstrap(level.seed, std::move(samples.conversations));
  // In the order of ExactPercentile.
  for (const double q : {0.50, 0.95, 0.99}) bootstrap.add_quantile(samples.ttft, q);
  for (const double q : {0.50, 0.95}) bootstrap.add_quantile(samples.tpot, q);
  for (const double q : {0.50, 0.95, 0.99}) bootstrap.add_quantile(samples.itl, q);
  for (const double q : {0.50, 0.95}) bootstrap.add_quantile(samples.latency, q);
  for (const double q : {0.50, 0.95, 0.99}) bootstrap.add_quantile(samples.ttft_from_schedule, q);
  for (const double q : {0.50, 0.95}) bootstrap.add_quantile(samples.latency_from_schedule, q);
  std::vector<std::vector<float>> values = bootstrap.run();
  PercentileReplicates replicates;
  std::ranges::move(values, replicates.begin());
  return replicates;
}

}  // namespace kvist::analysis
