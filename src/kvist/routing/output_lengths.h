// The distribution of answer lengths, learned from ended answers, and from it when a worker's next answers will end.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace kvist::routing {

/// Lengths are counted in stretches, of one token up to the first 16 tokens and then eight per octave, so that short
/// answers and long ones are known equally well. The last stretch begins at 122,880 tokens and has no end.
inline constexpr std::size_t kStretches = 120;

[[nodiscard]] constexpr std::size_t stretch_of(std::uint64_t tokens) {
  if (tokens < 16) return static_cast<std::size_t>(tokens);
  const auto octave = static_cast<std::size_t>(std::bit_width(tokens)) - 4;  // 1: the stretches are two tokens wide
  return std::min(kStretches - 1, 8 * octave + static_cast<std::size_t>(tokens >> octave));
}
[[nodiscard]] constexpr std::uint64_t stretch_begin(std::size_t stretch) {
  if (stretch < 16) return stretch;
  const std::size_t octave = stretch / 8 - 1;
  return std::uint64_t{stretch - 8 * octave} << octave;
}

/// For each stretch, how many of a worker's answers have come to it. Requires: remove() and advance() are given the
/// length that the answer was last counted with.
class OutputProgress {
 public:
  void add(std::uint64_t tokens) { add_to(stretch_of(tokens)); }
  void remove(std::uint64_t tokens) { remove_from(stretch_of(tokens)); }
  void advance(std::uint64_t from, std::uint64_t to) {
    const std::size_t before = stretch_of(from);
    const std::size_t after = stretch_of(to);
    if (before == after) return;
    remove_from(before);
    add_to(after);
  }
  [[nodiscard]] std::uint32_t in_stretch(std::size_t stretch) const { return requests_[stretch]; }
  /// The last stretch that an answer has come to; the first if there are no answers.
  [[nodiscard]] std::size_t farthest() const {
    for (std::size_t word = kWords; word-- > 0;) {
      if (taken_[word] != 0) return 64 * word + static_cast<std::size_t>(std::bit_width(taken_[word])) - 1;
    }
    return 0;
  }
  /// Calls `visit(stretch, requests)` for each stretch with requests, in ascending order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t word = 0; word < kWords; ++word) {
      for (std::uint64_t left = taken_[word]; left != 0; left &= left - 1) {
        const std::size_t stretch = 64 * word + static_cast<std::size_t>(std::countr_zero(left));
        visit(stretch, requests_[stretch]);
      }
    }
  }

 private:
  static constexpr std::size_t kWords = (kStretches + 63) / 64;
  void add_to(std::size_t stretch) {
    if (requests_[stretch]++ == 0) taken_[stretch / 64] |= std::uint64_t{1} << (stretch % 64);
  }
  void remove_from(std::size_t stretch) {
    if (--requests_[stretch] == 0) taken_[stretch / 64] &= ~(std::uint64_t{1} << (stretch % 64));
  }

  std::array<std::uint32_t, kStretches> requests_{};
  std::array<std::uint64_t, kWords> taken_{};  // a bit per stretch that has requests
};

/// The distribution of answer lengths as a hazard rate per stretch: of the answers that reached the stretch and left
/// it, the share that ended in it. So the expected rest of an answer follows from its length so far. An answer's weight
/// halves after `kMemory` more. The distribution starts from a guess that counts for a few answers. There is one for
/// the whole fleet.
class OutputLengths {
 public:
  explicit OutputLengths(double mean_guess_tokens = 400);

  /// An answer went on from one length to another.
  void on_progress(std::uint64_t from, std::uint64_t to) {
    for (std::size_t i = stretch_of(from), end = stretch_of(to); i < end; ++i) passed_[i] += 1;
  }
  /// An answer ended by itself or at its limit after `tokens` tokens. Requires: its progress was told of. So long
  /// answers under way count before they end; otherwise those that end first would make all answers look short.
  void observe(std::uint64_t tokens);
  [[nodiscard]] double mean_tokens() const { return mean_tokens_; }
  /// The expected length of an answer that has come to this stretch. Ensures: never falls from one stretch to the next.
  [[nodiscard]] double total_tokens(std::size_t stretch) const { return total_[stretch]; }
  /// The expected length of these answers together.
  [[nodiscard]] double total_tokens(const OutputProgress& progress) const;
  /// The expected number of decode steps until `count` of these requests have ended. A step generates one token of
  /// each. The last of them may take very long; beyond nearly all, the time goes on in proportion. Ensures: at least
  /// kLeastSteps, or less by the share that `count` is of the requests.
  [[nodiscard]] double steps_until_ended(const OutputProgress& progress, double count) const;
  /// All could end so soon.
  static constexpr double kLeastSteps = 0.5;

 private:
  static constexpr double kMemory = 500;
  void rebuild();
  [[nodiscard]] double survival(double tokens) const;
  [[nodiscard]] double ended(const OutputProgress& progress, double steps) const;

  std::array<double, kStretches> passed_{};  // answers that came to the end of the stretch and went on
  std::array<double, kStretches> ended_{};   // those that ended in it
  std::array<double, kStretches + 1> survival_{};
  std::array<double, kStretches> total_{};
  double mean_tokens_ = 0;
};

}  // namespace kvist::routing
