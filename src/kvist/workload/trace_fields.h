// Fields that several dialects of traces have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/json.h"
#include "kvist/base/time.h"

namespace kvist::workload {

inline constexpr double kMaxMilliseconds = 1e12;  ///< 31 years: far from the end of 64 bits of nanoseconds
inline constexpr std::uint64_t kMaxTokens = 16U << 20;

/// A time in units of so many milliseconds; nothing if it is absent.
[[nodiscard]] Result<std::optional<Duration>> find_time(const JsonObject& object, std::string_view name,
                                                        std::string_view expected, double unit_ms = 1);
/// A name, which may be a number or a text, hashed; nothing if it is absent.
[[nodiscard]] Result<std::optional<std::uint64_t>> find_name(const JsonObject& object, std::string_view name);
/// A number of tokens.
[[nodiscard]] Result<std::uint32_t> require_tokens(const JsonObject& object, std::string_view name,
                                                   std::uint64_t least);

}  // namespace kvist::workload
