// How accurate a source of knowledge about a worker's cache is, measured by the cached tokens that answers report.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvist::routing {

/// The share of the tokens expected to be cached that answers confirmed. Older answers count less: an answer's weight
/// falls to a third after ten more. The share starts at 1, with the weight of a prompt of 2,048 tokens. Threads: one.
class CacheAgreement {
 public:
  /// More cached tokens than expected do not lower the share, because a source may know less than the worker holds.
  void observe(std::uint64_t expected_tokens, std::uint64_t reported_tokens) {
    if (expected_tokens == 0) return;
    const auto expected = static_cast<double>(expected_tokens);
    expected_ = kDecay * expected_ + expected;
    confirmed_ = kDecay * confirmed_ + std::min(expected, static_cast<double>(reported_tokens));
    ++observations_;
    if (reported_tokens < expected_tokens) ++corrections_;
  }
  /// Resets the share to 1. The counts stay.
  void restart() { expected_ = confirmed_ = kPriorTokens; }

  /// The share, 0 to 1.
  [[nodiscard]] double share() const { return confirmed_ / expected_; }
  /// How much an expected block counts: 0 up to a share of a tenth, 1 from nine tenths on, linear between. The weight
  /// is continuous, so that no decision jumps when the share crosses a bound.
  [[nodiscard]] double weight() const { return std::clamp((share() - kWorthless) / (kWhole - kWorthless), 0.0, 1.0); }
  [[nodiscard]] std::uint64_t observations() const { return observations_; }
  /// The number of answers that reported less than expected.
  [[nodiscard]] std::uint64_t corrections() const { return corrections_; }

 private:
  static constexpr double kDecay = 0.9;
  static constexpr double kPriorTokens = 2'048;
  static constexpr double kWorthless = 0.1;
  static constexpr double kWhole = 0.9;

  double expected_ = kPriorTokens;
  double confirmed_ = kPriorTokens;
  std::uint64_t observations_ = 0;
  std::uint64_t corrections_ = 0;
};

}  // namespace kvist::routing
