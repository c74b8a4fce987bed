#include "kvist/results/turn_columns.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
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
  out.clear();
  out.reserve(gaps.size() * 4);
  for (const float gap : gaps) {
    const auto bits = std::bit_cast<std::uint32_t>(gap);
    for (unsigned shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>((bits >> shift) & 0xffU));
  }
}

std::optional<std::vector<float>> decode_gaps(std::span<const std::byte> bytes) {
  if (bytes.size() % 4 != 0) return std::nullopt;
  std::vector<float> gaps;
  gaps.reserve(bytes.size() / 4);
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    std::uint32_t bits = 0;
    for (unsigned byte = 0; byte < 4; ++byte) bits |= std::to_integer<std::uint32_t>(bytes[i + byte]) << (8 * byte);
    gaps.push_back(std::bit_cast<float>(bits));
    if (!std::isfinite(gaps.back())) return std::nullopt;
  }
  return gaps;
}

}  // namespace kvist::results
