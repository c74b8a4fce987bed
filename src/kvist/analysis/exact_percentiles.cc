#include "kvist/analysis/exact_percentiles.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "kvist/analysis/level_analysis.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {
namespace {

using workload::TurnSample;

/// What is resampled as a whole.
enum class Unit : bool { kConversation, kTime };

/// The samples of a level by what they measure, each with the index of its unit.
struct LevelSamples {
  std::vector<std::uint64_t> names;  // of the units
  std::vector<ClusteredSample> ttft, tpot, itl, latency;
  std::vector<ClusteredSample> ttft_from_schedule, latency_from_schedule;
};

/// If there are more gaps than this, every second or third or so is resampled, which bounds memory and time. The
/// percentiles themselves are over all gaps; their variation depends far more on the conversations than on the number
/// of gaps of each.
constexpr std::size_t kMostGaps = 4'000'000;
/// Of stretches of time, whose replicates scatter so widely that a quantile is far to walk to.
constexpr std::size_t kMostGapsOfTime = 200'000;

std::size_t gap_stride(const results::LevelRecord& level, Unit unit) {
  std::size_t gaps = 0;
  for (const TurnSample& turn : level.turns) gaps += counts_for_percentiles(level, turn) ? turn.gaps_ms.size() : 0;
  return 1 + gaps / (unit == Unit::kTime ? kMostGapsOfTime : kMostGaps);
}

/// Of a conversation, of a trace's session, or the number of the stretch of time.
std::uint64_t name_of(const results::LevelRecord& level, const TurnSample& turn, Unit unit) {
  if (unit == Unit::kConversation) return turn.session_or_conversation().value();
  const double length = to_seconds(level.measure_to - level.measure_from);
  if (length <= 0) return 0;
  const double stretch = to_seconds(turn.sent - level.measure_from) / length * static_cast<double>(kTimeStretches);
  return std::min(static_cast<std::size_t>(stretch), kTimeStretches - 1);
}

void add(std::vector<ClusteredSample>& samples, double value, std::uint32_t cluster) {
  if (std::isfinite(value)) samples.push_back({static_cast<float>(value), cluster});
}

LevelSamples samples_of(const results::LevelRecord& level, Schedule schedule, Unit unit) {
  LevelSamples samples;
  const std::size_t stride = gap_stride(level, unit);
  std::size_t gaps = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> indices;  // only looked up, never iterated
  for (const TurnSample& turn : level.turns) {
    if (!counts_for_percentiles(level, turn)) continue;
    const std::uint64_t name = name_of(level, turn, unit);
    const auto [entry, is_new] = indices.try_emplace(name, static_cast<std::uint32_t>(samples.names.size()));
    if (is_new) samples.names.push_back(name);
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

/// In the order of ExactPercentile.
std::vector<Replicates> resampled(const results::LevelRecord& level, Schedule schedule, Unit unit) {
  LevelSamples samples = samples_of(level, schedule, unit);
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
  std::vector<Replicates> by_conversation = resampled(level, schedule, Unit::kConversation);
  std::vector<Replicates> by_time = resampled(level, schedule, Unit::kTime);
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
