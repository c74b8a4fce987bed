// The shared first messages of a run: what conversations have in common, and so what a prefix cache can reuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvist/spec/workload.h"

namespace kvist::workload {

/// The starters of one run (none where conversations share none), drawn from the run's seed: two runs with one seed
/// have the same starters, two runs with different seeds share no prefix, so that the second does not find the cache
/// warmed by the first. Immutable; any thread may read it.
class Dataset {
 public:
  /// Requires a specification that check_workload() accepts.
  Dataset(const spec::WorkloadSpec& spec, std::uint64_t run_seed);

  [[nodiscard]] std::size_t size() const { return starters_.size(); }
  [[nodiscard]] const std::string& starter(std::size_t index) const { return starters_[index]; }

 private:
  std::vector<std::string> starters_;
};

}  // namespace kvist::workload
