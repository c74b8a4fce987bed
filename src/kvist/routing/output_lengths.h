// How long answers get, learned from those that ended, and when the next one on a worker will end.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace kvist::routing {

/// Lengths are counted in stretches of this many tokens; the last stretch has no end.
inline constexpr std::uint64_t kStretchTokens = 64;
inline constexpr std::size_t kStretches = 64;

[[nodiscard]] inline std::size_t stretch_of(std::uint64_t tokens) {
  return std::min<std::size_t>(static_cast<std::size_t>(tokens / kStretchTokens), kStretches - 1);
}

/// How many requests of a worker have come how far with their answers.
class OutputProgress {
 public:
  void add(std::uint64_t tokens) { ++requests_[stretch_of(tokens)]; }
  void remove(std::uint64_t tokens) { --requests_[stretch_of(tokens)]; }
  void advance(std::uint64_t from, std::uint64_t to) {
    const std::size_t before = stretch_of(from);
    const std::size_t after = stretch_of(to);
    if (before == after) return;
    --requests_[before];
    ++requests_[after];
  }
  [[nodiscard]] std::uint32_t in_stretch(std::size_t stretch) const { return requests_[stretch]; }

 private:
  std::array<std::uint32_t, kStretches> requests_{};
};

/// The distribution of answer lengths as a hazard per stretch (the share of answers that reached it and ended in it),
/// so that what an answer has come to already tells what is left. Forgets: an answer counts half after `kMemory` more.
/// One for the whole fleet. Starts from a guess worth a few answers.
class OutputLengths {
 public:
  explicit OutputLengths(double mean_guess_tokens = 400);

  /// An answer ended by itself or at its limit after `tokens`.
  void observe(std::uint64_t tokens);
  [[nodiscard]] double mean_tokens() const { return mean_tokens_; }
  /// Decode steps until `count` of these requests will have ended, by expectation; a step is a token of each. Where
  /// there are not so many requests: the time until the rest of an average answer has passed for all.
  [[nodiscard]] double steps_until_ended(const OutputProgress& progress, double count) const;

 private:
  static constexpr double kMemory = 500;
  void rebuild();

  std::array<double, kStretches> reached_{};  // answers that came into the stretch
  std::array<double, kStretches> ended_{};    // of those, that ended in it
  std::array<double, kStretches + 1> survival_{};
  double mean_tokens_ = 0;
};

}  // namespace kvist::routing
