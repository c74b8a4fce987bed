#include "kvist/results/turn_columns.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace kvist::results {
namespace {

static_assert(std::numeric_limits<float>::is_iec559 && sizeof(float) == 4);

using workload::TurnOutcome;
constexpr std::array<std::pair<TurnOutcome, std::string_view>, 3> kOutcomes = {{
    {TurnOutcome::kSucceeded, "succeeded"},
    {TurnOutcome::kFailed, "failed"},
    {TurnOutcome::kAbandoned, "abandoned"},
}};

}  // namespace

std::string_view outcome_name(TurnOutcome outcome) {
  for (const auto& [value, name] : kOutcomes) {
    if (value == outcome) return name;
  }
  return "failed";
}

std::optional<TurnOutcome> outcome_of_name(std::string_view name) {
  for (const auto& [value, known] : kOutcomes) {
    if (known == name) return value;
  }
  return std::nullopt;
}

void encode_gaps(std::span<const float> gaps, std::vector<std::byte>& out) {
  out.resize(gaps.size() * 4);
  if constexpr (std::endian::native == std::endian::little) {
    if (!gaps.empty()) std::memcpy(out.data(), gaps.data(), out.size());
  } else {
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(gaps[i]);
      for (std::size_t byte = 0; byte < 4; ++byte) out[4 * i + byte] = static_cast<std::byte>(bits >> (8 * byte));
    }
  }
}

std::optional<std::vector<float>> decode_gaps(std::span<const std::byte> bytes) {
  if (bytes.size() % 4 != 0) return std::nullopt;
  std::vector<float> gaps(bytes.size() / 4);
  if constexpr (std::endian::native == std::endian::little) {
    if (!gaps.empty()) std::memcpy(gaps.data(), bytes.data(), bytes.size());
  } else {
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      std::uint32_t bits = 0;
      for (std::size_t byte = 0; byte < 4; ++byte)
        bits |= std::to_integer<std::uint32_t>(bytes[4 * i + byte]) << (8 * byte);
      gaps[i] = std::bit_cast<float>(bits);
    }
  }
  if (!std::ranges::all_of(gaps, [](float gap) { return std::isfinite(gap); })) return std::nullopt;
  return gaps;
}

}  // namespace kvist::results
