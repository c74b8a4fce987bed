#include "kvist/base/flat_map.h"

#include <random>

namespace kvist {
namespace {

std::uint64_t random_odd() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device() | 1;
}

}  // namespace

const std::array<std::uint64_t, 2> RandomSpread::multipliers_ = {random_odd(), random_odd()};

}  // namespace kvist
