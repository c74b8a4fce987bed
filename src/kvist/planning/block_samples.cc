#include "kvist/planning/block_samples.h"

#include <string_view>

#include "kvist/analysis/level_samples.h"

namespace kvist::planning {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

/// What is counted of the turns sent within a block.
struct SentTurns {
  double all = 0;
  double prompt_tokens = 0;  // of those that succeeded
  double cached_tokens = 0;
};

SentTurns count_sent(const results::LevelRecord& block) {
  SentTurns counts;
  for (const TurnSample& turn : block.turns) {
    if (turn.sent < block.measure_from || turn.sent > block.measure_to) continue;
    ++counts.all;
    if (turn.outcome != TurnOutcome::kSucceeded) continue;
    counts.prompt_tokens += turn.prompt_tokens;
    counts.cached_tokens += turn.cached_tokens;
  }
  return counts;
}

/// A block as a level of its own, with the turns of which any part is within it: its rates need these.
results::LevelRecord block_of(const results::LevelRecord& level, std::size_t i) {
  const auto edge = [&](std::size_t at) {
    return level.measure_from + (level.measure_to - level.measure_from) * static_cast<Duration::rep>(at) /
                                    static_cast<Duration::rep>(kBlocks);
  };
  results::LevelRecord block;
  block.concurrency = level.concurrency;
  block.measure_from = edge(i);
  // Windows contain both of their ends, and no turn is in two blocks.
  block.measure_to = i + 1 == kBlocks ? level.measure_to : edge(i + 1) - Duration(1);
  for (const TurnSample& turn : level.turns) {
    if (turn.sent <= block.measure_to && turn.ended >= block.measure_from) block.turns.push_back(turn);
  }
  return block;
}

void add_parts(const results::LevelRecord& block, const spec::SweepSpec& sweep, BlockSamples& samples) {
  const LevelFigures figures = judged_figures(block, sweep);
  const double length_s = to_seconds(block.measure_to - block.measure_from);
  const auto add = [&](Headline figure, const std::optional<double>& value, double weight) {
    samples.of(figure).push_back(value ? BlockPart{.value = *value, .weight = weight} : BlockPart{});
  };
  for (const Headline rate :
       {Headline::kThroughput, Headline::kTurnRate, Headline::kConversationRate, Headline::kGoodput}) {
    add(rate, figures[rate], length_s);
  }
  const SentTurns sent = count_sent(block);
  samples.turns += static_cast<std::size_t>(sent.all);
  add(Headline::kErrorPct, figures[Headline::kErrorPct], sent.all);
  add(Headline::kGoodPct, figures[Headline::kGoodPct], figures[Headline::kTurnRate].value_or(0) * length_s);
  add(Headline::kHitRatePct,
      sent.prompt_tokens > 0 ? std::optional(100 * sent.cached_tokens / sent.prompt_tokens) : std::nullopt,
      sent.prompt_tokens);
}

}  // namespace

std::optional<TimingQuantile> timing_quantile(Headline figure) {
  const std::string_view key = spec::key_of(figure);
  if (!key.ends_with("_ms")) return std::nullopt;
  const double q = key.ends_with("_p50_ms") ? 0.5 : key.ends_with("_p95_ms") ? 0.95 : 0.99;
  if (key.starts_with("tpot_")) return TimingQuantile{Timing::kTpot, q};
  if (key.starts_with("itl_")) return TimingQuantile{Timing::kItl, q};
  if (key.starts_with("ttft_from_schedule_")) return TimingQuantile{Timing::kTtftFromSchedule, q};
  if (key.starts_with("latency_from_schedule_")) return TimingQuantile{Timing::kLatencyFromSchedule, q};
  return TimingQuantile{key.starts_with("ttft_") ? Timing::kTtft : Timing::kLatency, q};
}

BlockSamples blocks_of(const results::LevelRecord& level, const spec::SweepSpec& sweep) {
  BlockSamples samples;
  const analysis::LevelSamples found =
      analysis::samples_of(level, analysis::schedule_of(sweep.workload), analysis::SampleUnit::kTime, kBlocks);
  const auto copy = [&](Timing timing, const std::vector<ClusteredSample>& times) {
    for (const ClusteredSample& time : times) {
      samples.of(timing).push_back({time.value, static_cast<std::uint32_t>(found.names[time.cluster])});
    }
  };
  copy(Timing::kTtft, found.ttft);
  copy(Timing::kTpot, found.tpot);
  copy(Timing::kItl, found.itl);
  copy(Timing::kLatency, found.latency);
  copy(Timing::kTtftFromSchedule, found.ttft_from_schedule);
  copy(Timing::kLatencyFromSchedule, found.latency_from_schedule);
  for (std::size_t i = 0; i < kBlocks; ++i) add_parts(block_of(level, i), sweep, samples);
  return samples;
}

}  // namespace kvist::planning
