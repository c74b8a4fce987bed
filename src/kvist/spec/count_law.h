// The law by which a number is drawn: turns of a conversation, tokens of a message or an answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::spec {

enum class CountLawKind : std::uint8_t {
  kUniform,    ///< every number between the bounds alike
  kGeometric,  ///< after each one it ends with probability 1 / mean
  kNormal,     ///< rounded
  kLognormal,  ///< rounded
  kList,       ///< one of some values, by weight
};

/// Values are within bounds that stand beside it; what is drawn outside of them is drawn again.
struct CountLaw {
  CountLawKind kind = CountLawKind::kUniform;
  double mean = 0;       ///< geometric, normal, lognormal, before the bounds are applied
  double deviation = 0;  ///< normal, lognormal: standard deviation
  struct Share {
    std::uint32_t value = 0;
    double weight = 1;
    bool operator==(const Share&) const = default;
  };
  std::vector<Share> shares = {};  ///< list

  bool operator==(const CountLaw&) const = default;
};

/// A law with its bounds.
struct BoundedCount {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  CountLaw law = {};

  bool operator==(const BoundedCount&) const = default;
};

inline constexpr std::size_t kMaxListedCounts = 1'000;

/// "512", "100-900", "geometric:4", "normal:512/100", "lognormal:512/300", "list:1*5,2*3,8", each of the three in the
/// middle with bounds if they are given, as in "geometric:4:1-20". All numbers are within `least` and `most`. Errors
/// say what would be right.
[[nodiscard]] Result<BoundedCount> parse_count(std::string_view text, std::uint32_t least, std::uint32_t most);
/// The text that parse_count() reads back to the same value.
[[nodiscard]] std::string text_of(const BoundedCount& count);

/// The law of numbers that are `factor` times as large, at least 1.
[[nodiscard]] BoundedCount scaled(BoundedCount count, double factor);

}  // namespace kvist::spec
