// The number type of stored keys and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvist::engine::cpu {

enum class KvType : std::uint8_t { kBf16, kF16, kF32 };

/// Size of one number.
[[nodiscard]] constexpr std::size_t bytes_of(KvType type) {
  return type == KvType::kF32 ? 4 : 2;
}

[[nodiscard]] constexpr std::string_view to_string(KvType type) {
  if (type == KvType::kF32) return "F32";
  return type == KvType::kF16 ? "F16" : "BF16";
}

}  // namespace kvist::engine::cpu
