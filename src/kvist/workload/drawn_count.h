// Numbers drawn by a law: turns, tokens.
#pragma once

#include <cstdint>

#include "kvist/base/random.h"
#include "kvist/spec/count_law.h"

namespace kvist::workload {

/// A number within the bounds. The uniform law takes one draw from the stream. A number outside of the bounds is drawn
/// again, at most a thousand times; after that the nearest bound is taken.
[[nodiscard]] std::uint32_t draw(const spec::BoundedCount& count, RandomStream& random);

/// The mean of what draw() gives, within 2 % for laws that bounds cut.
[[nodiscard]] double mean_of(const spec::BoundedCount& count);

}  // namespace kvist::workload
