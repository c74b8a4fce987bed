// Private to spec: writes settings as YAML.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::spec {

/// Block style, two spaces per level. Text is always quoted, so that none of it is taken for syntax.
class YamlWriter {
 public:
  explicit YamlWriter(int indent) : indent_(indent) {}

  YamlWriter& begin_map(std::string_view key);
  YamlWriter& end_map();
  /// A list of mappings: begin_list(), then per element begin_item(), fields, end_map(); then end_list().
  YamlWriter& begin_list(std::string_view key);
  YamlWriter& begin_item();
  YamlWriter& end_list();

  YamlWriter& field(std::string_view key, std::string_view text);
  YamlWriter& field(std::string_view key, const std::string& text) { return field(key, std::string_view(text)); }
  YamlWriter& field(std::string_view key, double number);
  YamlWriter& field(std::string_view key, bool flag) { return raw(key, flag ? "true" : "false"); }
  YamlWriter& field(std::string_view key, Duration duration);
  YamlWriter& nanoseconds(std::string_view key, double value);
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  YamlWriter& field(std::string_view key, T number) {
    return raw(key, std::to_string(number));
  }
  /// A list of texts.
  YamlWriter& texts(std::string_view key, const std::vector<std::string>& texts);
  /// A value that is YAML already.
  YamlWriter& raw(std::string_view key, std::string_view yaml);
  /// Lines that are YAML already, with their indent.
  YamlWriter& lines(std::string_view yaml);

  [[nodiscard]] int indent() const { return indent_; }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void begin_line(std::string_view key);

  std::string out_;
  int indent_;
  bool first_of_item_ = false;  // the next line begins with the dash of its list element
};

}  // namespace kvist::spec
