#include "kvist/base/closest_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace kvist {
namespace {

constexpr std::size_t kLongest = 64;

/// Edits from one text to the other. Requires: both are of at most kLongest bytes.
std::size_t edits(std::string_view from, std::string_view to) {
  using Row = std::array<std::size_t, kLongest + 1>;
  Row two_before{};
  Row before{};
  Row row{};
  for (std::size_t j = 0; j <= to.size(); ++j) before[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t other = from[i - 1] == to[j - 1] ? 0 : 1;
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + other});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
    two_before = std::exchange(before, row);
  }
  return before[to.size()];
}

}  // namespace

std::optional<std::string_view> closest_name(std::string_view text, std::span<const std::string> names) {
  std::optional<std::string_view> closest;
  if (text.size() > kLongest) return closest;
  std::size_t fewest = kLongest;
  for (const std::string& name : names) {
    if (name.size() > kLongest) continue;
    const std::size_t needed = edits(text, name);
    if (needed >= fewest || needed * 3 > std::max(text.size(), name.size())) continue;
    fewest = needed;
    closest = name;
  }
  return closest;
}

std::string did_you_mean(std::string_view text, std::span<const std::string> names) {
  const auto meant = closest_name(text, names);
  return meant ? fmt::format("; did you mean {}?", *meant) : std::string();
}

}  // namespace kvist
