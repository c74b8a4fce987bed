#include "kvist/spec/fields.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

namespace kvist::spec {

Result<void> read_field(const YamlNode& map, std::string_view key, double& value, double low, double high) {
  if (const auto node = map.get(key)) {
    KVIST_TRY(value, node->as_double(low, high));
  }
  return {};
}

Result<void> read_field(const YamlNode& map, std::string_view key, std::string& value) {
  if (const auto node = map.get(key)) {
    KVIST_TRY(value, node->as_string());
    if (value.empty()) return std::unexpected(node->error("must not be empty"));
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
    if (std::ranges::any_of(value, is_control)) {
      return std::unexpected(node->error("must not hold control characters"));
    }
  }
  return {};
}

Result<void> read_field(const YamlNode& map, std::string_view key, bool& value) {
  if (const auto node = map.get(key)) {
    KVIST_TRY(value, node->as_bool());
  }
  return {};
}

Result<void> read_path(const YamlNode& map, std::string_view key, const std::string& base_directory,
                       std::string& value) {
  KVIST_TRY_VOID(read_field(map, key, value));
  if (!map.get(key) || base_directory.empty() || base_directory == ".") return {};
  value = (std::filesystem::path(base_directory) / value).lexically_normal().string();
  return {};
}

namespace {
constexpr std::size_t kMaxNameLength = 64;
}  // namespace

bool is_name(std::string_view text) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !text.empty() && text.front() != '.' && text.size() <= kMaxNameLength &&
         text.find_first_not_of(kAllowed) == std::string_view::npos;
}

Result<void> read_name(const YamlNode& map, std::string_view key, std::string& value) {
  KVIST_TRY_VOID(read_field(map, key, value));
  const auto node = map.get(key);
  if (!node) return {};
  if (!is_name(value)) {
    return std::unexpected(node->error(fmt::format(
        "\"{}\" is not a name: letters, digits, '_', '-' and '.' (not first), at most {}", value, kMaxNameLength)));
  }
  return {};
}

Result<void> read_field(const YamlNode& map, std::string_view key, Duration& value, Duration low) {
  if (const auto node = map.get(key)) {
    KVIST_TRY(value, node->as_duration());
    if (value < low) return std::unexpected(node->error(fmt::format("must be at least {}", seconds_text(low))));
  }
  return {};
}

std::string seconds_text(Duration duration) {
  return fmt::format("{} s", to_seconds(duration));
}

}  // namespace kvist::spec
