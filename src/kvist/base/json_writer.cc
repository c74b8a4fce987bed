#include "kvist/base/json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

#include "kvist/base/check.h"
#include "kvist/base/utf8.h"

namespace kvist {

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      const std::size_t length = utf8_sequence_length(text.substr(i));
      if (length == 0) {
        out += "\xEF\xBF\xBD";
        ++i;
      } else {
        out.append(text, i, length);
        i += length;
      }
      continue;
    }
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (c < 0x20) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
        } else {
          out.push_back(static_cast<char>(c));
        }
    }
    ++i;
  }
  out.push_back('"');
}

void JsonWriter::new_line() {
  if (indent_ == 0) return;
  out_.push_back('\n');
  out_.append(open_.size() * static_cast<std::size_t>(indent_), ' ');
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (open_.empty()) {
    KVIST_CHECK(out_.empty(), "a JSON document has one value");
    return;
  }
  KVIST_CHECK(open_.back() == '[', "a value in an object needs a key");
  if (!first_) out_.push_back(',');
  first_ = false;
  new_line();
}

void JsonWriter::open(char bracket) {
  before_value();
  out_.push_back(bracket);
  open_.push_back(bracket);
  first_ = true;
}

void JsonWriter::close(char bracket) {
  const char opened = bracket == '}' ? '{' : '[';
  KVIST_CHECK(!open_.empty() && open_.back() == opened && !after_key_, "unbalanced JSON");
  open_.pop_back();
  if (!first_) new_line();
  first_ = false;
  out_.push_back(bracket);
}

JsonWriter& JsonWriter::begin_object() {
  open('{');
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  close('}');
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  open('[');
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  close(']');
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  KVIST_CHECK(!open_.empty() && open_.back() == '{' && !after_key_, "a JSON key belongs in an object");
  if (!first_) out_.push_back(',');
  first_ = false;
  new_line();
  append_json_string(out_, name);
  out_ += indent_ == 0 ? ":" : ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  append_json_string(out_, text);
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) {
  return raw(flag ? "true" : "false");
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  before_value();
  fmt::format_to(std::back_inserter(out_), "{}", number);
  return *this;
}

JsonWriter& JsonWriter::rounded_field(std::string_view name, std::optional<double> v, double scale) {
  key(name);
  if (!v || !std::isfinite(*v)) return null();
  return value(std::round(*v * scale) / scale);
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  before_value();
  out_ += json;
  return *this;
}

std::string JsonWriter::take() {
  KVIST_CHECK(open_.empty() && !after_key_ && !out_.empty(), "unfinished JSON");
  first_ = true;
  return std::move(out_);
}

}  // namespace kvist
