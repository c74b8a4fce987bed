#include "kvist/spec/yaml_writer.h"

#include <fmt/format.h>

#include "kvist/base/json_writer.h"

namespace kvist::spec {

void YamlWriter::begin_line(std::string_view key) {
  const auto width = static_cast<std::size_t>(indent_);
  if (first_of_item_) {
    out_.append(width - 2, ' ').append("- ");
    first_of_item_ = false;
  } else {
    out_.append(width, ' ');
  }
  out_.append(key).append(":");
}

YamlWriter& YamlWriter::begin_map(std::string_view key) {
  begin_line(key);
  out_ += '\n';
  indent_ += 2;
  return *this;
}

YamlWriter& YamlWriter::end_map() {
  indent_ -= 2;
  return *this;
}

YamlWriter& YamlWriter::begin_list(std::string_view key) {
  return begin_map(key);
}

YamlWriter& YamlWriter::begin_item() {
  indent_ += 2;
  first_of_item_ = true;
  return *this;
}

YamlWriter& YamlWriter::end_list() {
  return end_map();
}

YamlWriter& YamlWriter::field(std::string_view key, std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);  // every JSON string is a YAML string
  return raw(key, quoted);
}

YamlWriter& YamlWriter::field(std::string_view key, double number) {
  return raw(key, fmt::format("{}", number));
}

YamlWriter& YamlWriter::field(std::string_view key, Duration duration) {
  // In the largest unit in which it is a whole number, which is exact and easy to read.
  const auto ns = duration.count();
  if (ns % 1'000'000'000 == 0) return raw(key, fmt::format("{} s", ns / 1'000'000'000));
  if (ns % 1'000'000 == 0) return raw(key, fmt::format("{} ms", ns / 1'000'000));
  if (ns % 1'000 == 0) return raw(key, fmt::format("{} us", ns / 1'000));
  return raw(key, fmt::format("{} ns", ns));
}

YamlWriter& YamlWriter::nanoseconds(std::string_view key, double value) {
  return raw(key, fmt::format("{} ns", value));
}

YamlWriter& YamlWriter::texts(std::string_view key, const std::vector<std::string>& texts) {
  begin_line(key);
  out_ += '\n';
  for (const std::string& text : texts) {
    out_.append(static_cast<std::size_t>(indent_) + 2, ' ').append("- ");
    append_json_string(out_, text);
    out_ += '\n';
  }
  return *this;
}

YamlWriter& YamlWriter::raw(std::string_view key, std::string_view yaml) {
  begin_line(key);
  out_.append(" ").append(yaml).append("\n");
  return *this;
}

YamlWriter& YamlWriter::lines(std::string_view yaml) {
  out_.append(yaml);
  return *this;
}

}  // namespace kvist::spec
