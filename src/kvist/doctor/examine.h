// The checks of an examination.
#pragma once

#include <vector>

#include "kvist/doctor/finding.h"
#include "kvist/doctor/snapshot.h"

namespace kvist::doctor {

/// What is wrong, the worst first; findings of one severity in the order of the checks. A function of its argument
/// alone.
[[nodiscard]] std::vector<Finding> examine(const Snapshot& snapshot);

}  // namespace kvist::doctor
