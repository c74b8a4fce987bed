#include "kvist/analysis/turn_groups.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <utility>

#include "kvist/base/statistics.h"

namespace kvist::analysis {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

constexpr std::uint32_t kLastTurn = 9;
constexpr std::uint32_t kShortest = 256;
constexpr std::uint32_t kLongest = 131'072;
constexpr std::uint32_t kNoEnd = std::numeric_limits<std::uint32_t>::max();

struct Range {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  auto operator<=>(const Range&) const = default;
};

struct Samples {
  std::vector<double> ttft, tpot;
  std::uint64_t prompt = 0;
  std::uint64_t cached = 0;
};

bool counts(const results::LevelRecord& level, const TurnSample& turn) {
  return turn.outcome == TurnOutcome::kSucceeded && turn.first_token != TimePoint{} &&
         turn.sent >= level.measure_from && turn.sent <= level.measure_to;
}

TurnGroup group_of(const Range& range, Samples samples) {
  const Distribution ttft = describe(std::move(samples.ttft));
  TurnGroup group{.from = range.from,
                  .to = range.to,
                  .turns = ttft.count,
                  .ttft_p50_ms = ttft.p50,
                  .ttft_p95_ms = ttft.p95,
                  .tpot_p50_ms = {},
                  .hit_rate_pct = {}};
  if (!samples.tpot.empty()) group.tpot_p50_ms = describe(std::move(samples.tpot)).p50;
  if (samples.prompt > 0) {
    group.hit_rate_pct = 100 * static_cast<double>(samples.cached) / static_cast<double>(samples.prompt);
  }
  return group;
}

template <class RangeOf>
std::vector<TurnGroup> groups_by(const results::LevelRecord& level, const RangeOf& range_of) {
  std::map<Range, Samples> groups;
  for (const TurnSample& turn : level.turns) {
    if (!counts(level, turn)) continue;
    const std::optional<Range> range = range_of(turn);
    if (!range) continue;
    Samples& samples = groups[*range];
    samples.ttft.push_back(turn.ttft_ms());
    if (const std::optional<double> tpot = turn.tpot_ms()) samples.tpot.push_back(*tpot);
    samples.prompt += turn.prompt_tokens;
    samples.cached += turn.cached_tokens;
  }
  std::vector<TurnGroup> result;
  for (auto& [range, samples] : groups) result.push_back(group_of(range, std::move(samples)));
  return result;
}

/// A running mean over the values that are there.
void add(std::optional<double>& mean, const std::optional<double>& value, std::size_t& count) {
  if (!value) return;
  ++count;
  mean = mean.value_or(0) + (*value - mean.value_or(0)) / static_cast<double>(count);
}

}  // namespace

std::vector<TurnGroup> groups_by_turn(const results::LevelRecord& level) {
  return groups_by(level, [](const TurnSample& turn) -> std::optional<Range> {
    if (turn.turn >= kLastTurn) return Range{.from = kLastTurn, .to = kNoEnd};
    return Range{.from = turn.turn, .to = turn.turn};
  });
}

std::vector<TurnGroup> groups_by_prompt(const results::LevelRecord& level) {
  return groups_by(level, [](const TurnSample& turn) -> std::optional<Range> {
    if (turn.prompt_tokens == 0) return std::nullopt;
    if (turn.prompt_tokens < kShortest) return Range{.from = 1, .to = kShortest - 1};
    if (turn.prompt_tokens >= kLongest) return Range{.from = kLongest, .to = kNoEnd};
    const std::uint32_t from = std::bit_floor(turn.prompt_tokens);
    return Range{.from = from, .to = 2 * from - 1};
  });
}

std::vector<TurnGroup> merge_groups(std::span<const std::vector<TurnGroup>* const> repetitions) {
  struct Sum {
    TurnGroup group;
    std::size_t ttfts = 0, tpots = 0, rates = 0;
  };
  std::map<Range, Sum> sums;
  for (const std::vector<TurnGroup>* groups : repetitions) {
    for (const TurnGroup& group : *groups) {
      Sum& sum = sums[{.from = group.from, .to = group.to}];
      sum.group.from = group.from;
      sum.group.to = group.to;
      sum.group.turns += group.turns;
      ++sum.ttfts;
      const auto n = static_cast<double>(sum.ttfts);
      sum.group.ttft_p50_ms += (group.ttft_p50_ms - sum.group.ttft_p50_ms) / n;
      sum.group.ttft_p95_ms += (group.ttft_p95_ms - sum.group.ttft_p95_ms) / n;
      add(sum.group.tpot_p50_ms, group.tpot_p50_ms, sum.tpots);
      add(sum.group.hit_rate_pct, group.hit_rate_pct, sum.rates);
    }
  }
  std::vector<TurnGroup> merged;
  for (const auto& [range, sum] : sums) merged.push_back(sum.group);
  return merged;
}

}  // namespace kvist::analysis
