// BF16 and F16 numbers as bits.
#pragma once

#include <bit>
#include <cstdint>

namespace kvist::engine::cpu {

/// A BF16 number: the upper half of an F32.
using Bf16 = std::uint16_t;

[[nodiscard]] constexpr float float_of_bf16(Bf16 bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Rounds to the nearest BF16, ties to even; a NaN stays a NaN.
[[nodiscard]] constexpr Bf16 bf16_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<Bf16>(bits >> 16 | 0x40U);
  return static_cast<Bf16>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

/// Rounds to the nearest IEEE half, ties to even; overflow becomes infinity, a NaN stays a NaN.
[[nodiscard]] constexpr std::uint16_t f16_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // 65520 and more
  if (magnitude < 0x38800000U) {
    // Halves below 2^-14 have a spacing of 2^-24, as floats from 0.5 on have: the addition rounds.
    const float counted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(counted) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude - 0x38000000U + 0xfffU + (magnitude >> 13 & 1U);
  return static_cast<std::uint16_t>(sign | rounded >> 13);
}

/// Exact: every IEEE half is an F32.
[[nodiscard]] constexpr float float_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;  // zero and subnormal numbers
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

}  // namespace kvist::engine::cpu
