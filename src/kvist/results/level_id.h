// The number of a level in its database.
#pragma once

#include <cstdint>

namespace kvist::results {

/// Bounds that keep level ids far below the range of 64 bits.
inline constexpr std::int64_t kMaxLevels = 1'000'000;  ///< of one run
inline constexpr std::int64_t kMaxRuns = 1'000'000'000;

/// The id depends on the run and the position in its plan, not on the order of writing, so that the rows do not depend
/// on the number of threads. Requires: 1 <= run <= kMaxRuns and 0 <= position < kMaxLevels.
[[nodiscard]] constexpr std::int64_t level_id(std::int64_t run, std::int64_t position) {
  return run * kMaxLevels + position;
}

}  // namespace kvist::results
