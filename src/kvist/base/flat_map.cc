#include "kvist/base/flat_map.h"

#include <random>

namespace kvist {
namespace {

std::uint64_t random_odd() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device() | 1;
}

}  // namespace

const std::uint64_t RandomMultiplier::value = random_odd();

}  // namespace kvist
