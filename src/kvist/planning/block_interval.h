// Intervals of a level's figures over blocks of time.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "kvist/planning/block_samples.h"

namespace kvist::planning {

/// How far the true figure may be from the one found: with the given confidence it is not so much lower, and with the
/// same confidence not so much higher.
struct BlockInterval {
  double below = 0;
  double above = 0;
  std::size_t blocks = 0;  ///< that have anything of the figure
};

/// Fewer blocks say nothing of how they differ.
inline constexpr std::size_t kLeastBlocks = 3;
/// So many samples are beyond a percentile at least. As many as cluster_bootstrap.h asks for.
inline constexpr double kLeastBeyond = 5;
/// So many turns a share is of at least: of fewer none may fail although one of twenty does.
inline constexpr std::size_t kLeastTurnsOfShare = 60;

/// By Student's t over the blocks of a level, each that of all `replays` together, which are of the same requests.
///  - A rate or a share is the mean of those of the blocks, weighted by what these make up.
///  - Of a percentile the blocks give the interval of the share of turns below it, and its bounds are the quantiles of
///    that interval's ends (Woodruff 1952). The blocks' own percentiles would not do: where the slow turns come
///    together, in a queue, each but a few of them are much lower than that of the window. A bound is never beyond the
///    largest value seen.
///  - A share of which no turn is different (no errors) is as uncertain as so many turns leave it.
/// Nothing if there are too few turns, or blocks with any. Requires: 0.5 <= confidence < 1.
[[nodiscard]] std::optional<BlockInterval> block_interval(std::span<const BlockSamples> replays, Headline figure,
                                                          double confidence);

}  // namespace kvist::planning
