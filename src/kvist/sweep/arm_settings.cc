#include "kvist/sweep/arm_settings.h"

#include "kvist/base/random.h"

namespace kvist::sweep {

workload::ArmTexts arm_texts(const spec::SweepSpec& sweep, const PlannedLevel& level, std::uint64_t salt) {
  workload::ArmTexts texts{.opening = {}, .frozen_replies = sweep.comparison.replies == spec::ArmReplies::kFrozen};
  if (sweep.comparison.caches == spec::CacheProof::kNonce) {
    texts.opening = workload::opening_of(mix_seed(
        {level.seed, seed_part("opening"), seed_part(level.mode.name()), level.concurrency, level.repetition, salt}));
  }
  return texts;
}

std::uint64_t gateway_seed(const spec::SweepSpec& sweep, const spec::Arm& arm, std::uint64_t level_seed) {
  const std::uint64_t seed = sweep.deployment.gateway.seed;
  if (sweep.arms.empty()) return seed;
  return mix_seed({seed, seed_part("arm"), seed_part(arm.name()), level_seed}) >>
         11;  // below 2^53, as a YAML file has it exactly
}

}  // namespace kvist::sweep
