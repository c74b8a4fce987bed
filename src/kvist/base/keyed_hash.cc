#include "kvist/base/keyed_hash.h"

#include <bit>

namespace kvist {
namespace {

struct State {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void take(std::uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t KeyedHash::operator()(std::uint64_t number) const {
  // "somepseudorandomlygeneratedbytes", as the authors chose.
  State state{.v0 = key_low_ ^ 0x736f6d6570736575,
              .v1 = key_high_ ^ 0x646f72616e646f6d,
              .v2 = key_low_ ^ 0x6c7967656e657261,
              .v3 = key_high_ ^ 0x7465646279746573};
  state.take(number);
  // The last word has what is left of the message, nothing here, and its length.
  constexpr std::uint64_t kBytes = sizeof(number);
  state.take(kBytes << 56);
  state.v2 ^= 0xFF;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace kvist
