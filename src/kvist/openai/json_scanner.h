// Private to openai: finds places in JSON text without parsing it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "kvist/base/json.h"

namespace kvist::openai {

/// The raw text of one field of an object.
struct RawField {
  std::string_view key;  ///< with quotes
  std::size_t value_begin = 0;
  std::size_t value_end = 0;
};

/// Scans JSON text by position, tens of megabytes of it in a few milliseconds: most of a large text is within strings,
/// where only the next quote is looked for. It does not check the text, which was parsed before or will be.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  [[nodiscard]] char at(std::size_t position) const { return position < text_.size() ? text_[position] : '\0'; }
  /// The position of the next character that is not white space, or the size of the text.
  [[nodiscard]] std::size_t skip_space(std::size_t at) const;
  /// The position of the text's value. Workers in Python read a text with a byte order mark.
  [[nodiscard]] std::size_t begin() const {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    return skip_space(text_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  }
  /// The position after the string that begins at `begin`; npos if it does not end.
  [[nodiscard]] std::size_t skip_string(std::size_t begin) const;
  /// The position after the value that begins at `begin`; npos if it does not end.
  [[nodiscard]] std::size_t skip_value(std::size_t begin) const;

  /// The fields of the object that begins at `begin`; false if it is none, or has more than JsonObject names.
  [[nodiscard]] bool fields(std::size_t begin, std::vector<RawField>& out) const {
    bool too_many = false;
    const bool readable = for_each_field(begin, [&](const RawField& field) {
      out.push_back(field);
      too_many = out.size() > JsonObject::kMostNamed;
      return !too_many;
    });
    return readable && !too_many;
  }

  /// Calls `visit` with each field of the object that begins at `begin`, until it returns false. Returns false if the
  /// text is no object, as far as it was looked at.
  template <class Visit>
  [[nodiscard]] bool for_each_field(std::size_t begin, const Visit& visit) const {
    if (at(begin) != '{') return false;
    std::size_t i = skip_space(begin + 1);
    if (at(i) == '}') return true;
    while (at(i) == '"') {
      const std::size_t key_end = skip_string(i);
      if (key_end == std::string_view::npos) return false;
      const std::size_t colon = skip_space(key_end);
      if (at(colon) != ':') return false;
      const std::size_t value = skip_space(colon + 1);
      const std::size_t value_end = skip_value(value);
      if (value_end == std::string_view::npos) return false;
      if (!visit(RawField{text_.substr(i, key_end - i), value, value_end})) return true;
      const std::size_t next = skip_space(value_end);
      if (at(next) == '}') return true;
      if (at(next) != ',') return false;
      i = skip_space(next + 1);
    }
    return false;
  }

 private:
  [[nodiscard]] std::size_t skip_scalar(std::size_t begin) const;

  std::string_view text_;
};

}  // namespace kvist::openai
