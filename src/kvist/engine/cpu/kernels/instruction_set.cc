#include "kvist/engine/cpu/kernels/targets.h"
//
#include <hwy/highway.h>

#include <cstdint>

#include "kvist/engine/cpu/kernels/kernels.h"

namespace kvist::engine::cpu::kernels {
namespace {

/// Bits of the compiled targets that this machine supports; lower bits are better targets.
std::int64_t usable() {
  return hwy::SupportedTargets() & HWY_TARGETS;
}

std::int64_t lowest_bit(std::int64_t bits) {
  return bits & -bits;
}

}  // namespace

std::string_view instruction_set() {
  return hwy::TargetName(lowest_bit(usable()));
}

std::vector<std::string_view> instruction_sets() {
  hwy::SetSupportedTargetsForTest(0);  // discards an earlier choice
  std::vector<std::string_view> names;
  for (std::int64_t bits = usable(); bits != 0; bits &= bits - 1) names.emplace_back(hwy::TargetName(lowest_bit(bits)));
  return names;
}

bool choose_instruction_set(std::string_view name) {
  hwy::SetSupportedTargetsForTest(0);
  for (std::int64_t bits = usable(); bits != 0; bits &= bits - 1) {
    if (name != hwy::TargetName(lowest_bit(bits))) continue;
    hwy::SetSupportedTargetsForTest(lowest_bit(bits));
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return true;
  }
  return false;
}

}  // namespace kvist::engine::cpu::kernels
