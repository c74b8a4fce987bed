// The number of a level in its database.
#pragma once

#include <cstdint>

namespace kvist::results {

/// Bounds that keep level ids far from the end of 64 bits.
inline constexpr std::int64_t kMaxLevels = 1'000'000;  ///< of one run
inline constexpr std::int64_t kMaxRuns = 1'000'000'000;

/// Follows from the run and the position in its plan, not from the order of writing: a run whose levels were measured
/// on several threads has the same rows as one that was measured on one. Requires 1 <= run <= kMaxRuns and
/// 0 <= position < kMaxLevels.
[[nodiscard]] constexpr std::int64_t level_id(std::int64_t run, std::int64_t position) {
  return run * kMaxLevels + position;
}

}  // namespace kvist::results
