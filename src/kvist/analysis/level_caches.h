// What the caches of a level could have saved, and whether they were empty when it began.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/analysis/cache_oracle.h"
#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {

/// What must be known of a sweep to know the contents of its prompts; made once for a run.
struct CacheContext {
  spec::WorkloadSpec workload;
  bool replies_live = true;                  ///< a conversation's history has what was answered
  bool goes_on = false;                      ///< conversations begin in levels before
  std::uint32_t block_size = 0;              ///< 0: not known
  std::vector<std::string> workers;          ///< names, in the order of `worker_blocks`
  std::vector<std::uint64_t> worker_blocks;  ///< empty: not known
};
[[nodiscard]] CacheContext cache_context(const spec::SweepSpec& sweep);

/// A level's caches, as far as they can be known.
struct LevelCaches {
  CacheBounds bounds;
  /// The number of turns that report more cached tokens than this level could have left in caches that were empty when
  /// it began, by more than the tolerance, and the number of tokens beyond it.
  std::size_t overdrawn_turns = 0;
  std::uint64_t overdrawn_tokens = 0;
};

/// Finds which prompts began alike from the workload, the level's seed and the lengths that usage reports. Returns
/// nothing if that cannot be known: for a replayed trace, a target that reports no lengths, a load that continues from
/// level to level.
[[nodiscard]] std::optional<LevelCaches> level_caches(const results::LevelRecord& level, const CacheContext& context);

}  // namespace kvist::analysis
