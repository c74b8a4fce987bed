// Private to spec: reading one field of a mapping into a member, whose value stays where the key is absent.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/base/error.h"
#include "kvist/base/yaml.h"

namespace kvist::spec {

/// Largest value of a field that is a size or a count; far above anything sensible, far below overflow.
inline constexpr std::int64_t kMaxCount = 1'000'000'000;

template <std::integral T>
  requires(!std::same_as<T, bool>)
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
/// Whether read_name() takes it.
[[nodiscard]] bool is_name(std::string_view text);
/// A name that may stand in file names, metric labels and headers: letters, digits, '.', '_', '-'; at most 64 of them.
[[nodiscard]] Result<void> read_name(const YamlNode& map, std::string_view key, std::string& value);
/// true or false.
[[nodiscard]] Result<void> read_field(const YamlNode& map, std::string_view key, bool& value);
/// The path of a file, relative to `base_directory`.
[[nodiscard]] Result<void> read_path(const YamlNode& map, std::string_view key, const std::string& base_directory,
                                     std::string& value);
/// A duration of at least `low`.
[[nodiscard]] Result<void> read_field(const YamlNode& map, std::string_view key, Duration& value, Duration low);

/// One word of a fixed set, as a file spells the values of an enumeration.
template <class T>
struct Word {
  std::string_view text;
  T value;
};

/// One of `words`; the error lists them.
template <class T, std::size_t N>
[[nodiscard]] Result<void> read_word(const YamlNode& map, std::string_view key, const std::array<Word<T>, N>& words,
                                     T& value) {
  const auto node = map.get(key);
  if (!node) return {};
  KVIST_TRY(const std::string text, node->as_string());
  std::string known;
  for (const Word<T>& word : words) {
    if (word.text == text) {
      value = word.value;
      return {};
    }
    known.append(known.empty() ? "" : " or ").append(word.text);
  }
  return std::unexpected(node->error("expected " + known + ", got \"" + text + "\""));
}

template <class T, std::size_t N>
[[nodiscard]] std::string_view word_of(const std::array<Word<T>, N>& words, T value) {
  for (const Word<T>& word : words) {
    if (word.value == value) return word.text;
  }
  KVIST_CHECK(false, "an enumeration has a value without a word");
}

/// "1.5 s" for messages.
[[nodiscard]] std::string seconds_text(Duration duration);

}  // namespace kvist::spec
