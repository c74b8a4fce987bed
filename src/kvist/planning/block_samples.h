// What blocks of time of a level tell of how its figures vary, for levels of which seeds do not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/planning/level_figures.h"
#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"

namespace kvist::planning {

/// Into how many equal, consecutive blocks the measuring window is divided: long against what a queue remembers, and
/// enough for Student's t.
inline constexpr std::size_t kBlocks = 10;

/// A rate or a share within a block, and how much of the level's it makes up: the seconds of a rate, the number that a
/// share is of.
struct BlockPart {
  double value = 0;
  double weight = 0;
};
/// A time of a turn and the block in which the turn was sent.
struct BlockSample {
  float value = 0;
  std::uint32_t block = 0;
};

/// The times that have percentiles.
enum class Timing : std::uint8_t { kTtft, kTpot, kItl, kLatency, kTtftFromSchedule, kLatencyFromSchedule };
inline constexpr std::size_t kTimings = 6;

/// A figure as a quantile of a time.
struct TimingQuantile {
  Timing timing = Timing::kTtft;
  double q = 0.5;
};
/// Nothing for rates and shares.
[[nodiscard]] std::optional<TimingQuantile> timing_quantile(Headline figure);

/// One level, by blocks.
struct BlockSamples {
  std::size_t turns = 0;                                          ///< sent within the window
  std::array<std::vector<BlockSample>, kTimings> times = {};      ///< ascending by value
  std::array<std::vector<BlockPart>, spec::kFigures> parts = {};  ///< of each block; empty for percentiles

  [[nodiscard]] std::vector<BlockSample>& of(Timing timing) { return times[static_cast<std::size_t>(timing)]; }
  [[nodiscard]] const std::vector<BlockSample>& of(Timing timing) const {
    return times[static_cast<std::size_t>(timing)];
  }
  [[nodiscard]] std::vector<BlockPart>& of(Headline figure) { return parts[static_cast<std::size_t>(figure)]; }
  [[nodiscard]] const std::vector<BlockPart>& of(Headline figure) const {
    return parts[static_cast<std::size_t>(figure)];
  }
};

/// By the definitions of judged_figures(). The hit rate of a block is that of the turns sent within it.
[[nodiscard]] BlockSamples blocks_of(const results::LevelRecord& level, const spec::SweepSpec& sweep);

}  // namespace kvist::planning
