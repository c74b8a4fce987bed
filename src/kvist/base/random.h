// Seeded random streams whose values are the same on every machine and every standard library.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace kvist {

/// Mixes parts of a key (run seed, conversation, turn, purpose) into one 64-bit seed. A change of any part, or of their
/// order, gives an unrelated seed.
[[nodiscard]] std::uint64_t mix_seed(std::initializer_list<std::uint64_t> parts);
/// A part for mix_seed from text, so that a stream is named by its purpose: mix_seed({seed, seed_part("starts")}).
[[nodiscard]] std::uint64_t seed_part(std::string_view text);

/// A stream of random numbers: xoshiro256++ (Blackman and Vigna, 2019), seeded through SplitMix64. Copyable; a copy
/// continues independently with the same values. The distributions are written here because those of the standard
/// library differ between implementations.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed);

  /// Uniform over all 64-bit values.
  [[nodiscard]] std::uint64_t next();
  /// Uniform in [0, 1), 53 bits.
  [[nodiscard]] double uniform();
  /// Uniform in [low, high], both included, without modulo bias. Requires: low <= high.
  [[nodiscard]] std::int64_t uniform_int(std::int64_t low, std::int64_t high);
  /// Exponential with the given mean (> 0), in the unit of the mean.
  [[nodiscard]] double exponential(double mean);
  /// Normal by the polar method. The second value of each pair is dropped, so that one call is one draw.
  [[nodiscard]] double normal(double mean, double standard_deviation);

 private:
  std::uint64_t state_[4];
};

}  // namespace kvist
