// Summaries of very many samples: what describe() says, without sorting them.
#pragma once

#include <vector>

#include "kvist/base/statistics.h"

namespace kvist::analysis {

/// The same figures as kvist::describe() of the same values, exactly (no histogram, no sketch), in linear time: a
/// level's token gaps are close to a million. Reorders `samples`.
[[nodiscard]] Distribution describe_in_place(std::vector<float>& samples);

}  // namespace kvist::analysis
