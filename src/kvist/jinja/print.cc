// Values as text, as Python's str(), repr() and json.dumps() write them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvist/jinja/code_points.h"
#include "kvist/jinja/value.h"

namespace kvist::jinja {
namespace {

// Python writes the shortest text that is read as the same number, with a point or an exponent.
std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// "\x1f", "\u3000" or "\U000e0001".
std::string escape_of(char32_t c) {
  const auto value = static_cast<std::uint32_t>(c);
  if (value <= 0xFF) return fmt::format("\\x{:02x}", value);
  return value <= 0xFFFF ? fmt::format("\\u{:04x}", value) : fmt::format("\\U{:08x}", value);
}

// A text in quotes, as repr() writes it.
Result<void> print_quoted(Meter& meter, const MarkedText& text, MarkedText& out) {
  KVIST_TRY_VOID(meter.scan(text.size()));
  const std::string_view bytes = text.bytes();
  const bool single = bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos;
  const char quote = single ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint c = code_point_at(bytes, at);
    const bool marked = text.is_marked(at);
    if (c.value == '\\' || c.value == static_cast<unsigned char>(quote)) {
      out.append("\\", marked);
      out.append(text, at, at + c.bytes);
    } else if (c.value == '\n' || c.value == '\r' || c.value == '\t') {
      out.append(c.value == '\n' ? "\\n" : c.value == '\r' ? "\\r" : "\\t", marked);
    } else if (!is_printable(c.value)) {
      out.append(escape_of(c.value), marked);
    } else {
      out.append(text, at, at + c.bytes);
    }
    at += c.bytes;
  }
  out.append(std::string_view(&quote, 1));
  return meter.allocate(text.size());
}

Result<void> print_repr(Meter& meter, const Value& value, MarkedText& out);

Result<void> print_items(Meter& meter, const List& list, MarkedText& out) {
  out.append(list.tuple ? "(" : "[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ");
    KVIST_TRY_VOID(print_repr(meter, list.items[i], out));
  }
  if (list.tuple && list.items.size() == 1) out.append(",");
  out.append(list.tuple ? ")" : "]");
  return {};
}

Result<void> print_entries(Meter& meter, const Dict& dict, MarkedText& out) {
  out.append("{");
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out.append(", ");
    KVIST_TRY_VOID(print_repr(meter, dict.entries[i].first, out));
    out.append(": ");
    KVIST_TRY_VOID(print_repr(meter, dict.entries[i].second, out));
  }
  out.append("}");
  return {};
}

Result<void> print_repr(Meter& meter, const Value& value, MarkedText& out) {
  KVIST_TRY_VOID(meter.step());
  KVIST_TRY_VOID(meter.allocate(8));
  if (const MarkedText* text = value.text()) return print_quoted(meter, *text, out);
  if (value.is_undefined()) {
    out.append("Undefined");
    return {};
  }
  return print(meter, value, out);
}

std::string_view json_escape(char32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      return {};
  }
}

std::string unicode_escape(char32_t c) {
  if (c < 0x10000) return fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  const char32_t offset = c - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", static_cast<unsigned>(0xD800U + (offset >> 10U)),
                     static_cast<unsigned>(0xDC00U + (offset & 0x3FFU)));
}

class JsonPrinter {
 public:
  JsonPrinter(Meter& meter, const JsonStyle& style, MarkedText& out) : meter_(&meter), style_(&style), out_(&out) {}

  Result<void> value(const Value& value, int level) {
    KVIST_TRY_VOID(meter_->step());
    KVIST_TRY_VOID(meter_->allocate(8 + static_cast<std::size_t>(std::max(style_->indent, 0) * level)));
    if (const MarkedText* text = value.text()) return string(*text);
    if (const List* items = value.list()) return list(*items, level);
    if (const Dict* entries = value.dict()) return dict(*entries, level);
    if (value.is_none()) {
      out_->append("null");
    } else if (const auto* flag = value.as<bool>()) {
      out_->append(*flag ? "true" : "false");
    } else if (const auto* integer = value.as<std::int64_t>()) {
      out_->append(std::to_string(*integer));
    } else if (const auto* large = value.as<LargeInteger>()) {
      out_->append(std::to_string(large->value));
    } else if (const auto* number = value.as<double>()) {
      out_->append(number_text(*number));
    } else {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no form in JSON", kind_of(value)));
    }
    return {};
  }

 private:
  Result<void> string(const MarkedText& text) {
    KVIST_TRY_VOID(meter_->scan(text.size()));
    KVIST_TRY_VOID(meter_->allocate(text.size()));
    out_->append("\"");
    const std::string_view bytes = text.bytes();
    std::size_t copied = 0;
    for (std::size_t at = 0; at < bytes.size();) {
      const CodePoint c = code_point_at(bytes, at);
      std::string escaped(json_escape(c.value));
      if (escaped.empty() && (c.value < 0x20 || (style_->ensure_ascii && c.value >= 0x7F)))
        escaped = unicode_escape(c.value);
      if (!escaped.empty()) {
        out_->append(text, copied, at);
        out_->append(escaped, text.is_marked(at));
        copied = at + c.bytes;
      }
      at += c.bytes;
    }
    out_->append(text, copied, bytes.size());
    out_->append("\"");
    return {};
  }

  void new_line(int level) {
    if (style_->indent < 0) return;
    out_->append("\n" + std::string(static_cast<std::size_t>(style_->indent * level), ' '));
  }

  // With an indent, a line end replaces the blank after the comma.
  void separate() {
    const std::string_view separator = style_->item_separator;
    out_->append(style_->indent >= 0 && separator == ", " ? "," : separator);
  }

  Result<void> list(const List& list, int level) {
    out_->append("[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) separate();
      new_line(level + 1);
      KVIST_TRY_VOID(value(list.items[i], level + 1));
    }
    if (!list.items.empty()) new_line(level);
    out_->append("]");
    return {};
  }

  // Numbers become texts, and are sorted as numbers.
  Result<void> key(const Value& key) {
    if (const MarkedText* text = key.text()) return string(*text);
    out_->append("\"");
    KVIST_TRY_VOID(value(key, 0));
    out_->append("\"");
    return {};
  }

  Result<void> sort(std::vector<const std::pair<Value, Value>*>& entries) {
    for (std::size_t i = 1; i < entries.size(); ++i)
      KVIST_TRY_VOID(compare(*meter_, entries[0]->first, entries[i]->first));
    std::ranges::sort(entries, {}, [](const auto* entry) {
      const MarkedText* text = entry->first.text();
      return std::pair(entry->first.integer(), text == nullptr ? std::string_view() : text->bytes());
    });
    return {};
  }

  Result<void> dict(const Dict& dict, int level) {
    std::vector<const std::pair<Value, Value>*> entries;
    entries.reserve(dict.entries.size());
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_->sort_keys) KVIST_TRY_VOID(sort(entries));
    out_->append("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) separate();
      new_line(level + 1);
      KVIST_TRY_VOID(key(entries[i]->first));
      out_->append(style_->key_separator);
      KVIST_TRY_VOID(value(entries[i]->second, level + 1));
    }
    if (!entries.empty()) new_line(level);
    out_->append("}");
    return {};
  }

  Meter* meter_;
  const JsonStyle* style_;
  MarkedText* out_;
};

}  // namespace

Result<void> print(Meter& meter, const Value& value, MarkedText& out) {
  if (const MarkedText* text = value.text()) {
    out.append(*text);
    return meter.scan(text->size());
  }
  if (value.is_undefined()) return {};
  if (value.is_none()) {
    out.append("None");
  } else if (const auto* flag = value.as<bool>()) {
    out.append(*flag ? "True" : "False");
  } else if (const auto* integer = value.as<std::int64_t>()) {
    out.append(std::to_string(*integer));
  } else if (const auto* large = value.as<LargeInteger>()) {
    out.append(std::to_string(large->value));
  } else if (const auto* number = value.as<double>()) {
    out.append(number_text(*number));
  } else if (const List* list = value.list()) {
    return print_items(meter, *list, out);
  } else if (const Dict* dict = value.dict()) {
    return print_entries(meter, *dict, out);
  } else {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no text", kind_of(value)));
  }
  return {};
}

Result<TextPtr> to_text(Meter& meter, const Value& value) {
  if (const auto* text = value.as<TextPtr>()) return *text;
  MarkedText out;
  KVIST_TRY_VOID(print(meter, value, out));
  KVIST_TRY(const Value made, make_text(meter, std::move(out)));
  return *made.as<TextPtr>();
}

Result<void> print_json(Meter& meter, const Value& value, const JsonStyle& style, MarkedText& out) {
  return JsonPrinter(meter, style, out).value(value, 0);
}

}  // namespace kvist::jinja
