#include "kvist/analysis/level_samples.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "kvist/analysis/level_analysis.h"

namespace kvist::analysis {
namespace {

using workload::TurnSample;

/// If there are more gaps than this, every second or third or so is resampled, which bounds memory and time. The
/// percentiles themselves are over all gaps; their variation depends far more on the conversations than on the number
/// of gaps of each.
constexpr std::size_t kMostGaps = 4'000'000;
/// Of stretches of time, whose replicates scatter so widely that a quantile is far to walk to.
constexpr std::size_t kMostGapsOfTime = 200'000;

std::size_t gap_stride(const results::LevelRecord& level, SampleUnit unit) {
  std::size_t gaps = 0;
  for (const TurnSample& turn : level.turns) gaps += counts_for_percentiles(level, turn) ? turn.gaps_ms.size() : 0;
  return 1 + gaps / (unit == SampleUnit::kTime ? kMostGapsOfTime : kMostGaps);
}

/// Of a conversation, of a trace's session, or the number of the stretch of time.
std::uint64_t name_of(const results::LevelRecord& level, const TurnSample& turn, SampleUnit unit,
                      std::size_t stretches) {
  if (unit == SampleUnit::kConversation) return turn.session_or_conversation().value();
  const double length = to_seconds(level.measure_to - level.measure_from);
  if (length <= 0) return 0;
  const double stretch = to_seconds(turn.sent - level.measure_from) / length * static_cast<double>(stretches);
  return std::min(static_cast<std::size_t>(stretch), stretches - 1);
}

void add_sample(std::vector<ClusteredSample>& samples, double value, std::uint32_t cluster) {
  if (std::isfinite(value)) samples.push_back({static_cast<float>(value), cluster});
}

}  // namespace

LevelSamples samples_of(const results::LevelRecord& level, Schedule schedule, SampleUnit unit, std::size_t stretches) {
  LevelSamples samples;
  const std::size_t stride = gap_stride(level, unit);
  std::size_t gaps = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> indices;  // only looked up, never iterated
  for (const TurnSample& turn : level.turns) {
    if (!counts_for_percentiles(level, turn)) continue;
    const std::uint64_t name = name_of(level, turn, unit, stretches);
    const auto [entry, is_new] = indices.try_emplace(name, static_cast<std::uint32_t>(samples.names.size()));
    if (is_new) samples.names.push_back(name);
    const std::uint32_t cluster = entry->second;
    add_sample(samples.latency, turn.latency_ms(), cluster);
    if (schedule == Schedule::kOpen) {
      add_sample(samples.latency_from_schedule, turn.latency_from_schedule_ms(), cluster);
      if (has_first_token(turn)) add_sample(samples.ttft_from_schedule, turn.ttft_from_schedule_ms(), cluster);
    }
    if (!has_first_token(turn)) continue;
    add_sample(samples.ttft, turn.ttft_ms(), cluster);
    if (const std::optional<double> tpot = turn.tpot_ms()) add_sample(samples.tpot, *tpot, cluster);
    for (const float gap : turn.gaps_ms) {
      if (gaps++ % stride == 0) add_sample(samples.itl, static_cast<double>(gap), cluster);
    }
  }
  for (auto* const list : {&samples.ttft, &samples.tpot, &samples.itl, &samples.latency, &samples.ttft_from_schedule,
                           &samples.latency_from_schedule}) {
    std::ranges::sort(*list, {}, &ClusteredSample::value);
  }
  return samples;
}

}  // namespace kvist::analysis
