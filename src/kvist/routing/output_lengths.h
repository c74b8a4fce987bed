// The distribution of answer lengths, learned from ended answers, and the forecast of when a worker's next answers end.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace kvist::routing {

/// Lengths are counted in bins, of one token each up to 16 tokens and then eight per octave, so that short answers and
/// long ones are known equally well. The last bin begins at 122,880 tokens and has no end.
inline constexpr std::size_t kBins = 120;

[[nodiscard]] constexpr std::size_t bin_of(std::uint64_t tokens) {
  if (tokens < 16) return static_cast<std::size_t>(tokens);
  const auto octave = static_cast<std::size_t>(std::bit_width(tokens)) - 4;  // 1: the bins are two tokens wide
  return std::min(kBins - 1, 8 * octave + static_cast<std::size_t>(tokens >> octave));
}
[[nodiscard]] constexpr std::uint64_t bin_begin(std::size_t bin) {
  if (bin < 16) return bin;
  const std::size_t octave = bin / 8 - 1;
  return std::uint64_t{bin - 8 * octave} << octave;
}

/// For each bin, how many of a worker's answers are in it by their length so far. Requires: remove() and advance() are
/// given the length that the answer was last counted with. Threads: the router's.
class OutputProgress {
 public:
  // `answers`: so many, which are equally long.
  void add(std::uint64_t tokens, std::uint32_t answers = 1) { add_to(bin_of(tokens), answers); }
  void remove(std::uint64_t tokens, std::uint32_t answers = 1) { remove_from(bin_of(tokens), answers); }
  void advance(std::uint64_t from, std::uint64_t to, std::uint32_t answers = 1) {
    const std::size_t before = bin_of(from);
    const std::size_t after = bin_of(to);
    if (before == after) return;
    remove_from(before, answers);
    add_to(after, answers);
  }
  [[nodiscard]] std::uint32_t in_bin(std::size_t bin) const { return requests_[bin]; }
  /// The bin of the longest answer; the first bin if there are no answers.
  [[nodiscard]] std::size_t farthest() const {
    for (std::size_t word = kWords; word-- > 0;) {
      if (taken_[word] != 0) return 64 * word + static_cast<std::size_t>(std::bit_width(taken_[word])) - 1;
    }
    return 0;
  }
  /// Calls `visit(bin, requests)` for each bin with requests, in ascending order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t word = 0; word < kWords; ++word) {
      for (std::uint64_t left = taken_[word]; left != 0; left &= left - 1) {
        const std::size_t bin = 64 * word + static_cast<std::size_t>(std::countr_zero(left));
        visit(bin, requests_[bin]);
      }
    }
  }

 private:
  static constexpr std::size_t kWords = (kBins + 63) / 64;
  void add_to(std::size_t bin, std::uint32_t answers) {
    if (requests_[bin] == 0) taken_[bin / 64] |= std::uint64_t{1} << (bin % 64);
    requests_[bin] += answers;
  }
  void remove_from(std::size_t bin, std::uint32_t answers) {
    requests_[bin] -= answers;
    if (requests_[bin] == 0) taken_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  }

  std::array<std::uint32_t, kBins> requests_{};
  std::array<std::uint64_t, kWords> taken_{};  // a bit per bin that has requests
};

/// The distribution of answer lengths as a hazard rate per bin: of the answers that reached the bin and left it, the
/// share that ended in it. So the expected rest of an answer follows from its length so far. An answer's weight halves
/// after `kMemory` more. The distribution starts from a guess that counts for a few answers. There is one for the whole
/// fleet. Threads: the router's.
class OutputLengths {
 public:
  explicit OutputLengths(double mean_guess_tokens = 400);

  /// An answer went on from one length to another.
  void on_progress(std::uint64_t from, std::uint64_t to) {
    for (std::size_t i = bin_of(from), end = bin_of(to); i < end; ++i) passed_[i] += 1;
  }
  /// An answer ended by itself or at its limit after `tokens` tokens. Requires: on_progress() was told of every step to
  /// that length. So long answers under way count before they end; otherwise those that end first would make all
  /// answers look short.
  void observe(std::uint64_t tokens);
  [[nodiscard]] double mean_tokens() const { return mean_tokens_; }
  /// The expected length of an answer that has come to this bin. Ensures: never falls from one bin to the next.
  [[nodiscard]] double total_tokens(std::size_t bin) const { return total_[bin]; }
  /// The sum of the expected lengths of these answers.
  [[nodiscard]] double total_tokens(const OutputProgress& progress) const;
  /// The expected number of decode steps until `count` of these requests have ended. A step generates one token of
  /// each. The last of them may take very long, so beyond nearly all of them the estimate grows in proportion to
  /// `count`. Ensures: at least kLeastSteps, times the share that `count` is of the requests if that is less than 1.
  [[nodiscard]] double steps_until_ended(const OutputProgress& progress, double count) const;
  /// No estimate for all requests is below this many steps.
  static constexpr double kLeastSteps = 0.5;

 private:
  static constexpr double kMemory = 500;
  void rebuild();
  [[nodiscard]] double survival(double tokens) const;
  [[nodiscard]] double ended(const OutputProgress& progress, double steps) const;

  std::array<double, kBins> passed_{};  // answers that came to the end of the bin and went on
  std::array<double, kBins> ended_{};   // those that ended in it
  std::array<double, kBins + 1> survival_{};
  std::array<double, kBins> total_{};
  double mean_tokens_ = 0;
};

}  // namespace kvist::routing
