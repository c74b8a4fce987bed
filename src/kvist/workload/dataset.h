// The shared first messages of a run, which a prefix cache can reuse across conversations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvist/spec/workload.h"

namespace kvist::workload {

/// The starters of one run (none if conversations share none), drawn from the run's seed. Two runs with the same seed
/// have the same starters. Two runs with different seeds share no prefix, so that the second does not find the first
/// one's blocks in the cache. Immutable; any thread may read it.
class Dataset {
 public:
  /// Requires: a specification that check_workload() accepts.
  Dataset(const spec::WorkloadSpec& spec, std::uint64_t run_seed);

  [[nodiscard]] std::size_t size() const { return starters_.size(); }
  [[nodiscard]] const std::string& starter(std::size_t index) const { return starters_[index]; }

 private:
  std::vector<std::string> starters_;
};

}  // namespace kvist::workload
