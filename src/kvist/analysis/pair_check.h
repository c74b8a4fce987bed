// Whether two measurements may be compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/analysis/level_caches.h"
#include "kvist/results/records.h"

namespace kvist::analysis {

/// The number of each conversation, ascending, with the tokens of its first prompt, which no answer changes. At most
/// kMostFirstPrompts, those of the lowest numbers.
using FirstPrompts = std::vector<std::pair<std::uint64_t, std::uint32_t>>;
inline constexpr std::size_t kMostFirstPrompts = 4'096;

[[nodiscard]] FirstPrompts first_prompts(const results::LevelRecord& level);

/// What speaks against comparing a measurement with any other, each as a sentence without a full stop: caches that
/// were warm when it began, load that was not the client's.
[[nodiscard]] std::vector<std::string> objections_to(const results::LevelRecord& level,
                                                     const std::optional<LevelCaches>& caches);

/// The part of a measurement by which a pair is judged.
struct Paired {
  std::uint64_t seed = 0;
  const FirstPrompts* first_prompts = nullptr;
  const std::vector<std::string>* objections = nullptr;
};

/// What speaks against comparing these two, including the objections to each, which are told apart by `names`.
[[nodiscard]] std::vector<std::string> objections_to_pair(const Paired& baseline, const Paired& candidate,
                                                          const std::pair<std::string, std::string>& names);

}  // namespace kvist::analysis
