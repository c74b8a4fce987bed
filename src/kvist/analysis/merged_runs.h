// Several runs as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/results/records.h"
#include "kvist/results/store.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {

/// One run to be merged.
struct MergedPart {
  std::string name;  ///< for messages
  results::RunRecord head;
  spec::SweepSpec sweep;
  std::vector<results::LevelHead> levels;
};

/// Where a level of the merged run comes from.
struct MergedLevel {
  std::size_t part = 0;
  std::int64_t id = 0;  ///< in its own database
  std::uint32_t repetition = 0;
};

struct MergedRun {
  spec::SweepSpec sweep;
  bool simulated = false;
  std::vector<MergedLevel> levels;  ///< in the order of their positions
};

/// Plans a run of the levels of all parts. Measurements of one level with the same seed become one repetition, so that
/// arms of different parts are compared over the same conversations; other seeds are further repetitions. Errors: parts
/// that were not measured alike (deployment, workload but for its seed, method but for repetitions,
/// proof of caches), live with simulated ones, an arm that was measured twice with one seed.
[[nodiscard]] Result<MergedRun> merge_runs(std::span<const MergedPart> parts);

/// What each part gave, in words; of a part that was merged itself, its own sources.
[[nodiscard]] std::vector<results::RunSource> sources_of(std::span<const MergedPart> parts);

}  // namespace kvist::analysis
