// The distribution of answer lengths, learned from ended answers, and from it when a worker's next answers will end.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace kvist::routing {

/// Lengths are counted in stretches of this many tokens. The last stretch has no end.
inline constexpr std::uint64_t kStretchTokens = 64;
inline constexpr std::size_t kStretches = 64;

[[nodiscard]] inline std::size_t stretch_of(std::uint64_t tokens) {
  return std::min<std::size_t>(static_cast<std::size_t>(tokens / kStretchTokens), kStretches - 1);
}

/// For each stretch, how many of a worker's answers have come to it. Requires: remove() and advance() are given the
/// length that the answer was last counted with.
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

/// The distribution of answer lengths as a hazard rate per stretch: the share of the answers that reached the stretch
/// and ended in it. So the expected rest of an answer follows from its length so far. An answer's weight halves after
/// `kMemory` more. The distribution starts from a guess that counts for a few answers. There is one for the whole
/// fleet.
class OutputLengths {
 public:
  explicit OutputLengths(double mean_guess_tokens = 400);

  /// An answer ended by itself or at its limit after `tokens` tokens.
  void observe(std::uint64_t tokens);
  [[nodiscard]] double mean_tokens() const { return mean_tokens_; }
  /// The expected number of decode steps until `count` of these requests have ended. A step generates one token of
  /// each. If there are fewer requests than that, the longest length that is counted.
  [[nodiscard]] double steps_until_ended(const OutputProgress& progress, double count) const;

 private:
  static constexpr double kMemory = 500;
  void rebuild();

  std::array<double, kStretches> reached_{};  // answers that reached the stretch
  std::array<double, kStretches> ended_{};    // those that ended in it
  std::array<double, kStretches + 1> survival_{};
  double mean_tokens_ = 0;
};

}  // namespace kvist::routing
