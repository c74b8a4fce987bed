// Private to spec: reading one field of a mapping into a member, whose value stays where the key is absent.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"

namespace kvist::spec {

/// Largest value of a field that is a size or a count; far above anything sensible, far below overflow.
inline constexpr std::int64_t kMaxCount = 1'000'000'000;

template <std::integral T>
[[nodiscard]] Result<void> read_field(const YamlNode& map, std::string_view key, T& value, std::int64_t low,
                                      std::int64_t high) {
  if (const auto node = map.get(key)) {
    KVIST_TRY(const std::int64_t number, node->as_int(low, high));
    value = static_cast<T>(number);
  }
  return {};
}

[[nodiscard]] Result<void> read_field(const YamlNode& map, std::string_view key, double& value, double low,
                                      double high);
/// Text that is not empty and has no control characters.
[[nodiscard]] Result<void> read_field(const YamlNode& map, std::string_view key, std::string& value);
/// A name that may stand in file names, metric labels and headers: letters, digits, '.', '_', '-'; at most 64 of them.
[[nodiscard]] Result<void> read_name(const YamlNode& map, std::string_view key, std::string& value);
/// A duration of at least `low`.
[[nodiscard]] Result<void> read_field(const YamlNode& map, std::string_view key, Duration& value, Duration low);

/// "1.5 s" for messages.
[[nodiscard]] std::string seconds_text(Duration duration);

}  // namespace kvist::spec
