// What differs between the measurements of the arms.
#pragma once

#include <cstdint>

#include "kvist/spec/arm.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/plan.h"
#include "kvist/workload/arm_texts.h"

namespace kvist::sweep {

/// The texts of a measurement. With spec::CacheProof::kNonce the opening follows from the arm, the level, the
/// repetition and `salt`, so that no other measurement has it.
[[nodiscard]] workload::ArmTexts arm_texts(const spec::SweepSpec& sweep, const PlannedLevel& level, std::uint64_t salt);

/// The seed of the gateway's random choices. Each arm that is listed by name has one of its own, so that two arms of
/// one mode are two samples of it. `level_seed` is that of the measurement, if requests have the same ids in each.
[[nodiscard]] std::uint64_t gateway_seed(const spec::SweepSpec& sweep, const spec::Arm& arm, std::uint64_t level_seed);

}  // namespace kvist::sweep
