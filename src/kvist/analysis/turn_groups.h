// A level's turns in groups: by their place in the conversation, by the length of their prompts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvist/results/records.h"

namespace kvist::analysis {

/// Turns whose number, or whose prompt's tokens, are from `from` to `to`, both included; `to` of the last group is the
/// largest value. It counts successful turns sent within the measuring window, as the exact percentiles do.
struct TurnGroup {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::size_t turns = 0;
  double ttft_p50_ms = 0;
  double ttft_p95_ms = 0;
  std::optional<double> tpot_p50_ms;   ///< nothing if no turn has two tokens
  std::optional<double> hit_rate_pct;  ///< nothing without usage

  bool operator==(const TurnGroup&) const = default;
};

/// By turn from 0; the tenth and later ones are one group. Groups without turns are left out.
[[nodiscard]] std::vector<TurnGroup> groups_by_turn(const results::LevelRecord& level);
/// By powers of two of the prompt's tokens: up to 255, 256 to 511, ..., 131,072 and more. Nothing without usage.
[[nodiscard]] std::vector<TurnGroup> groups_by_prompt(const results::LevelRecord& level);

/// Groups of repetitions: turns are summed, figures are means over the repetitions that have the group.
[[nodiscard]] std::vector<TurnGroup> merge_groups(std::span<const std::vector<TurnGroup>* const> repetitions);

}  // namespace kvist::analysis
