// Summaries of very many samples: the result of describe(), without sorting them.
#pragma once

#include <vector>

#include "kvist/base/statistics.h"

namespace kvist::analysis {

/// Returns exactly the figures of kvist::describe() (no histogram, no sketch), but in linear time, because a level has
/// close to a million token gaps. Reorders `samples`.
[[nodiscard]] Distribution describe_in_place(std::vector<float>& samples);

}  // namespace kvist::analysis
