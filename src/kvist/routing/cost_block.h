// Eight workers of a large fleet as CostLanes keeps them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvist::routing {

/// What a decision reads of each of eight workers, by field. A worker's own fields are as in CostLanes::Worker.
struct CostBlock {
  static constexpr std::size_t kWorkers = 8;
  using Row = std::array<float, kWorkers>;
  using Numbers = std::array<std::uint32_t, kWorkers>;

  Row others, base, steps, per_token, per_pair;
  Row prior_with, own_with, prior, own, least_share, share;
  Row per_prompt_token, batch, decoding, returning, saved;
  Numbers ratio_with, ratio;
  std::uint8_t queued;  ///< bits: which of them have prompts, and so something in the CostQueueBlock
};

/// What it reads besides if one of them has prompts. Those without have a queue that ended long ago.
struct CostQueueBlock {
  CostBlock::Row ready, last, others, base, steps;
  CostBlock::Row head_tokens, head_pairs, after_tokens, after_pairs;
};

}  // namespace kvist::routing
