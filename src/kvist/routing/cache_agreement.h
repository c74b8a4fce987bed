// How far a source of knowledge about a worker's cache comes true, by what the worker reports of each answer.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvist::routing {

/// A running share: of the tokens that were expected to be cached, how many answers reported as cached. Old answers
/// count less: an answer counts a third after ten more. It begins with full confidence, worth a prompt of 2,048 tokens.
class CacheAgreement {
 public:
  /// More cached tokens than expected are no mistake: the source may know less than the worker holds.
  void observe(std::uint64_t expected_tokens, std::uint64_t reported_tokens) {
    if (expected_tokens == 0) return;
    const auto expected = static_cast<double>(expected_tokens);
    expected_ = kDecay * expected_ + expected;
    confirmed_ = kDecay * confirmed_ + std::min(expected, static_cast<double>(reported_tokens));
    ++observations_;
    if (reported_tokens < expected_tokens) ++corrections_;
  }
  /// Back to full confidence; the counts stay.
  void restart() { expected_ = confirmed_ = kPriorTokens; }

  /// 0 to 1.
  [[nodiscard]] double share() const { return confirmed_ / expected_; }
  /// How much an expected block counts: nothing at a share of a tenth, fully from nine tenths on, linear between. It
  /// has no steps, so that no decision jumps when the share crosses a bound.
  [[nodiscard]] double weight() const { return std::clamp((share() - kWorthless) / (kWhole - kWorthless), 0.0, 1.0); }
  [[nodiscard]] std::uint64_t observations() const { return observations_; }
  /// Observations with less reported than expected.
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
