#include "kvist/base/random.h"

#include <bit>
#include <cmath>

#include "kvist/base/check.h"

namespace kvist {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): one step of the generator that seeds xoshiro.
std::uint64_t split_mix(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace

std::uint64_t mix_seed(std::initializer_list<std::uint64_t> parts) {
  std::uint64_t state = 0x6B76697374U;
  for (const std::uint64_t part : parts) {
    state ^= part;
    state = split_mix(state);
  }
  return state;
}

std::uint64_t seed_part(std::string_view text) {
  // FNV-1a, 64 bit.
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3U;
  }
  return hash;
}

RandomStream::RandomStream(std::uint64_t seed) {
  for (auto& word : state_) word = split_mix(seed);
}

std::uint64_t RandomStream::next() {
  const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double RandomStream::uniform() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

std::int64_t RandomStream::uniform_int(std::int64_t low, std::int64_t high) {
  KVIST_CHECK(low <= high, "uniform_int: empty range");
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  if (span == 0) return static_cast<std::int64_t>(next());  // the whole 64-bit range
  // Values below `threshold` would make the first residues more likely than the others.
  const std::uint64_t threshold = (0 - span) % span;
  std::uint64_t value = next();
  while (value < threshold) value = next();
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + value % span);
}

double RandomStream::exponential(double mean) {
  return -mean * std::log1p(-uniform());
}

double RandomStream::normal(double mean, double standard_deviation) {
  double u = 0;
  double v = 0;
  double square = 0;
  do {
    u = 2 * uniform() - 1;
    v = 2 * uniform() - 1;
    square = u * u + v * v;
  } while (square >= 1 || square == 0);
  return mean + standard_deviation * u * std::sqrt(-2 * std::log(square) / square);
}

}  // namespace kvist
