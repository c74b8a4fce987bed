// Methods of texts and filters that make texts, as Python's str and Jinja's filters define them.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kvist/jinja/code_points.h"
#include "kvist/jinja/functions.h"

namespace kvist::jinja {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// Methods need a text. Filters accept any value and print it first.
Result<TextPtr> self(const Invocation& call, std::string_view method) {
  if (const auto* text = call.input->as<TextPtr>()) {
    KVIST_TRY_VOID(call.meter->scan((*text)->size()));
    return *text;
  }
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no method '{}'", kind_of(*call.input), method));
}

Result<TextPtr> printed(const Invocation& call) {
  KVIST_TRY(TextPtr text, to_text(*call.meter, *call.input));
  KVIST_TRY_VOID(call.meter->scan(text->size()));
  return text;
}

Result<std::size_t> limit_argument(const Invocation& call, std::size_t index, std::string_view what) {
  KVIST_TRY(const std::int64_t limit, integer_argument(call, index, what, -1));
  return limit < 0 ? kNoLimit : static_cast<std::size_t>(limit);
}

// -- strip

enum class Sides : std::uint8_t { kBoth, kLeft, kRight };

bool holds(std::string_view characters, std::string_view character) {
  for (std::size_t at = 0; at < characters.size();) {
    const std::size_t bytes = code_point_at(characters, at).bytes;
    if (characters.substr(at, bytes) == character) return true;
    at += bytes;
  }
  return false;
}

std::size_t previous(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U);
  return end;
}

Result<Value> strip(const Invocation& call, const TextPtr& text, Sides sides) {
  const std::string_view bytes = text->bytes();
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  if (call.arguments[0].is_undefined() || call.arguments[0].is_none()) {
    if (sides != Sides::kRight) begin = leading_space(bytes);
    if (sides != Sides::kLeft && begin < end) end = begin + size_without_trailing_space(bytes.substr(begin));
  } else {
    KVIST_TRY(const MarkedText* set, text_argument(call, 0, "the characters to strip"));
    KVIST_TRY_VOID(call.meter->step(1 + set->size() * (bytes.size() / 64 + 1)));
    const auto in_set = [&](std::size_t at, std::size_t until) {
      return holds(set->bytes(), bytes.substr(at, until - at));
    };
    if (sides != Sides::kRight)
      while (begin < end && in_set(begin, begin + code_point_at(bytes, begin).bytes))
        begin += code_point_at(bytes, begin).bytes;
    if (sides != Sides::kLeft)
      while (end > begin && in_set(previous(bytes, end), end)) end = previous(bytes, end);
  }
  if (begin == 0 && end == bytes.size()) return Value(text);
  return make_text(*call.meter, text->part(begin, end));
}

template <Sides kSides>
Result<Value> strip_method(const Invocation& call) {
  KVIST_TRY(const TextPtr text, self(call, "strip"));
  return strip(call, text, kSides);
}

Result<Value> trim_filter(const Invocation& call) {
  KVIST_TRY(const TextPtr text, printed(call));
  return strip(call, text, Sides::kBoth);
}

// -- case

enum class Casing : std::uint8_t { kUpper, kLower, kCapital, kTitle, kTitleFilter };

// After one of these, the title filter begins a word.
bool separates_words(char32_t c) {
  return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

Result<Value> with_case(const Invocation& call, const MarkedText& text, Casing casing) {
  MarkedText out;
  out.reserve(text.size());
  std::string mapped;
  bool word_begins = true;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text.bytes(), at);
    const bool upper = casing == Casing::kUpper || (casing != Casing::kLower && word_begins);
    mapped.clear();
    append_utf8(mapped, upper ? to_upper(c.value) : to_lower(c.value));
    out.append(mapped, text.is_marked(at));
    word_begins = casing == Casing::kTitle         ? !is_letter(c.value)
                  : casing == Casing::kTitleFilter ? separates_words(c.value)
                                                   : false;
    at += c.bytes;
  }
  return make_text(*call.meter, std::move(out));
}

template <Casing kCasing>
Result<Value> case_method(const Invocation& call) {
  KVIST_TRY(const TextPtr text, self(call, "upper"));
  return with_case(call, *text, kCasing);
}

template <Casing kCasing>
Result<Value> case_filter(const Invocation& call) {
  KVIST_TRY(const TextPtr text, printed(call));
  return with_case(call, *text, kCasing);
}

// -- search and split

Result<Value> replace(const Invocation& call, const MarkedText& text) {
  KVIST_TRY(const MarkedText* old_part, text_argument(call, 0, "what to replace"));
  KVIST_TRY(const MarkedText* new_part, text_argument(call, 1, "the replacement"));
  KVIST_TRY(const std::size_t limit, limit_argument(call, 2, "the number of replacements"));
  MarkedText out;
  std::size_t copied = 0;
  std::size_t at = 0;
  for (std::size_t count = 0; count < limit; ++count) {
    const std::size_t found = find_in(text.bytes(), old_part->bytes(), at);
    if (found == std::string_view::npos) break;
    KVIST_TRY_VOID(call.meter->allocate(new_part->size()));
    KVIST_TRY_VOID(call.meter->step());
    out.append(text, copied, found);
    out.append(*new_part);
    copied = found + old_part->size();
    at = copied;
    if (!old_part->empty()) continue;
    // An empty text occurs between all characters.
    if (at == text.size()) break;
    at += code_point_at(text.bytes(), at).bytes;
  }
  out.append(text, copied, text.size());
  return make_text(*call.meter, std::move(out));
}

Result<Value> replace_method(const Invocation& call) {
  KVIST_TRY(const TextPtr text, self(call, "replace"));
  return replace(call, *text);
}

Result<Value> replace_filter(const Invocation& call) {
  KVIST_TRY(const TextPtr text, printed(call));
  return replace(call, *text);
}

class Pieces {
 public:
  Pieces(const Invocation& call, const MarkedText& text) : meter_(call.meter), text_(&text) {}

  Result<void> add(std::size_t begin, std::size_t end) {
    KVIST_TRY(Value piece, make_text(*meter_, text_->part(begin, end)));
    pieces_.push_back(std::move(piece));
    return {};
  }
  Result<Value> take() { return make_list(*meter_, std::move(pieces_)); }
  /// For pieces that were added from the last to the first.
  Result<Value> take_reversed() {
    std::ranges::reverse(pieces_);
    return take();
  }

 private:
  Meter* meter_;
  const MarkedText* text_;
  std::vector<Value> pieces_;
};

// Splits at runs of white space, and ignores those at the ends.
Result<Value> split_at_space(const Invocation& call, const MarkedText& text, std::size_t limit) {
  const std::string_view bytes = text.bytes();
  Pieces pieces(call, text);
  std::size_t at = leading_space(bytes);
  for (std::size_t count = 0; at < bytes.size(); ++count) {
    std::size_t end = at;
    if (count == limit) {
      end = at + size_without_trailing_space(bytes.substr(at));
    } else {
      while (end < bytes.size() && !is_space(code_point_at(bytes, end).value)) end += code_point_at(bytes, end).bytes;
    }
    KVIST_TRY_VOID(pieces.add(at, end));
    at = end + leading_space(bytes.substr(end));
  }
  return pieces.take();
}

Result<Value> split_method(const Invocation& call) {
  KVIST_TRY(const TextPtr text, self(call, "split"));
  KVIST_TRY(const std::size_t limit, limit_argument(call, 1, "the number of splits"));
  if (call.arguments[0].is_undefined() || call.arguments[0].is_none()) return split_at_space(call, *text, limit);
  KVIST_TRY(const MarkedText* separator, text_argument(call, 0, "the separator"));
  if (separator->empty()) return fail(ErrorCode::kInvalidArgument, "split: the separator is empty");
  Pieces pieces(call, *text);
  std::size_t at = 0;
  for (std::size_t count = 0; count < limit; ++count) {
    const std::size_t found = find_in(text->bytes(), separator->bytes(), at);
    if (found == std::string_view::npos) break;
    KVIST_TRY_VOID(pieces.add(at, found));
    at = found + separator->size();
  }
  KVIST_TRY_VOID(pieces.add(at, text->size()));
  return pieces.take();
}

// From the end on. What is left at the limit keeps the white space at its beginning.
Result<Value> rsplit_at_space(const Invocation& call, const MarkedText& text, std::size_t limit) {
  const std::string_view bytes = text.bytes();
  Pieces pieces(call, text);
  std::size_t end = size_without_trailing_space(bytes);
  for (std::size_t count = 0; end > 0; ++count) {
    std::size_t begin = count == limit ? 0 : end;
    while (begin > 0 && !is_space(code_point_at(bytes, previous(bytes, begin)).value)) begin = previous(bytes, begin);
    KVIST_TRY_VOID(pieces.add(begin, end));
    end = size_without_trailing_space(bytes.substr(0, begin));
  }
  return pieces.take_reversed();
}

Result<Value> rsplit_method(const Invocation& call) {
  KVIST_TRY(const TextPtr text, self(call, "rsplit"));
  KVIST_TRY(const std::size_t limit, limit_argument(call, 1, "the number of splits"));
  if (call.arguments[0].is_undefined() || call.arguments[0].is_none()) return rsplit_at_space(call, *text, limit);
  KVIST_TRY(const MarkedText* separator, text_argument(call, 0, "the separator"));
  if (separator->empty()) return fail(ErrorCode::kInvalidArgument, "rsplit: the separator is empty");
  KVIST_TRY_VOID(call.meter->step(separator->size() * (text->size() / 64 + 1)));  // at each byte it may nearly match
  Pieces pieces(call, *text);
  std::size_t end = text->size();
  for (std::size_t count = 0; count < limit && end >= separator->size(); ++count) {
    const std::size_t found = text->bytes().rfind(separator->bytes(), end - separator->size());
    if (found == std::string_view::npos) break;
    KVIST_TRY_VOID(pieces.add(found + separator->size(), end));
    end = found;
  }
  KVIST_TRY_VOID(pieces.add(0, end));
  return pieces.take_reversed();
}

Result<Value> splitlines_method(const Invocation& call) {
  KVIST_TRY(const TextPtr text, self(call, "splitlines"));
  const bool keep_ends = is_true(call.arguments[0]);
  const std::string_view bytes = text->bytes();
  Pieces pieces(call, *text);
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t end = std::min(bytes.find_first_of("\n\r", at), bytes.size());
    const bool pair = bytes.substr(end).starts_with("\r\n");
    const std::size_t next = end == bytes.size() ? end : end + (pair ? 2 : 1);
    if (keep_ends) end = next;
    KVIST_TRY_VOID(pieces.add(at, end));
    at = next;
  }
  return pieces.take();
}

// With a tuple, any of its texts may match.
template <bool kAtBegin>
Result<Value> affix_method(const Invocation& call) {
  KVIST_TRY(const TextPtr text, self(call, kAtBegin ? "startswith" : "endswith"));
  std::vector<Value> affixes = {call.arguments[0]};
  if (const List* list = call.arguments[0].list()) affixes = list->items;
  for (const Value& affix : affixes) {
    KVIST_TRY_VOID(call.meter->step());
    const MarkedText* part = affix.text();
    if (part == nullptr)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("startswith and endswith take texts, not {}", kind_of(affix)));
    if (kAtBegin ? text->bytes().starts_with(part->bytes()) : text->bytes().ends_with(part->bytes()))
      return Value(true);
  }
  return Value(false);
}

template <bool kAtBegin>
Result<Value> without_affix_method(const Invocation& call) {
  KVIST_TRY(const TextPtr text, self(call, kAtBegin ? "removeprefix" : "removesuffix"));
  KVIST_TRY(const MarkedText* part, text_argument(call, 0, "the part to remove"));
  const bool found = kAtBegin ? text->bytes().starts_with(part->bytes()) : text->bytes().ends_with(part->bytes());
  if (!found) return Value(text);
  const std::size_t begin = kAtBegin ? part->size() : 0;
  return make_text(*call.meter, text->part(begin, begin + text->size() - part->size()));
}

Result<Value> find_method_of_text(const Invocation& call) {
  KVIST_TRY(const TextPtr text, self(call, "find"));
  KVIST_TRY(const MarkedText* part, text_argument(call, 0, "the part to find"));
  const std::size_t found = find_in(text->bytes(), part->bytes());
  if (found == std::string_view::npos) return Value(std::int64_t{-1});
  return Value(static_cast<std::int64_t>(count_code_points(text->bytes().substr(0, found))));
}

Result<Value> join(const Invocation& call, const std::vector<Value>& items, const MarkedText& separator) {
  MarkedText out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    KVIST_TRY_VOID(call.meter->step());
    if (i > 0) {
      KVIST_TRY_VOID(call.meter->allocate(separator.size()));
      out.append(separator);
    }
    KVIST_TRY(const TextPtr item, to_text(*call.meter, items[i]));
    KVIST_TRY_VOID(call.meter->allocate(item->size()));
    out.append(*item);
  }
  return make_text(*call.meter, std::move(out));
}

Result<Value> join_method(const Invocation& call) {
  KVIST_TRY(const TextPtr separator, self(call, "join"));
  KVIST_TRY(const std::vector<Value> items, items_of(*call.meter, call.arguments[0]));
  return join(call, items, *separator);
}

Result<Value> join_filter(const Invocation& call) {
  KVIST_TRY(std::vector<Value> items, items_of(*call.meter, *call.input));
  if (!call.arguments[1].is_undefined()) {
    KVIST_TRY(const MarkedText* attribute, text_argument(call, 1, "the attribute"));
    for (Value& item : items) {
      KVIST_TRY(item, attribute_of(*call.meter, item, attribute->bytes()));
    }
  }
  const MarkedText nothing;
  const MarkedText* separator = &nothing;
  if (!call.arguments[0].is_undefined()) {
    KVIST_TRY(separator, text_argument(call, 0, "the separator"));
  }
  return join(call, items, *separator);
}

// -- whole texts

Result<Value> indent_filter(const Invocation& call) {
  KVIST_TRY(const TextPtr text, printed(call));
  MarkedText indent;
  if (const MarkedText* width = call.arguments[0].text()) {
    indent = *width;
  } else {
    KVIST_TRY(const std::int64_t spaces, integer_argument(call, 0, "the width", 4));
    if (spaces < 0 || spaces > 1000) return fail(ErrorCode::kInvalidArgument, "indent: expected a width of 0 to 1000");
    indent = MarkedText(std::string(static_cast<std::size_t>(spaces), ' '));
  }
  const bool first = is_true(call.arguments[1]);
  const bool blank = is_true(call.arguments[2]);
  MarkedText out;
  const std::string_view bytes = text->bytes();
  for (std::size_t at = 0; at <= bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
    if (at == 0 ? first : blank || end > at) {
      KVIST_TRY_VOID(call.meter->allocate(indent.size()));
      out.append(indent);
    }
    out.append(*text, at, std::min(end + 1, bytes.size()));
    at = end + 1;
  }
  return make_text(*call.meter, std::move(out));
}

Result<Value> string_filter(const Invocation& call) {
  KVIST_TRY(TextPtr text, to_text(*call.meter, *call.input));
  return Value(std::move(text));
}

Result<Value> safe_filter(const Invocation& call) {
  return *call.input;  // there is no escaping to switch off
}

Result<void> read_separators(const Value& argument, JsonStyle& style) {
  if (argument.is_undefined() || argument.is_none()) return {};
  const List* pair = argument.list();
  if (pair == nullptr || pair->items.size() != 2 || pair->items[0].text() == nullptr ||
      pair->items[1].text() == nullptr)
    return fail(ErrorCode::kInvalidArgument, "tojson: separators must be a tuple of two texts");
  style.item_separator = pair->items[0].text()->bytes();
  style.key_separator = pair->items[1].text()->bytes();
  return {};
}

// The order of the arguments is that of the transformers library, whose filter replaces Jinja's.
Result<Value> tojson_filter(const Invocation& call) {
  JsonStyle style;
  style.ensure_ascii = is_true(call.arguments[0]);
  if (!call.arguments[1].is_undefined() && !call.arguments[1].is_none()) {
    KVIST_TRY(const std::int64_t indent, integer_argument(call, 1, "indent", 0));
    if (indent < 0 || indent > 100) return fail(ErrorCode::kInvalidArgument, "tojson: expected an indent of 0 to 100");
    style.indent = static_cast<int>(indent);
  }
  KVIST_TRY_VOID(read_separators(call.arguments[2], style));
  style.sort_keys = is_true(call.arguments[3]);
  MarkedText out;
  KVIST_TRY_VOID(print_json(*call.meter, *call.input, style, out));
  return make_text(*call.meter, std::move(out));
}

constexpr Function kMethods[] = {
    {"capitalize", {}, 0, &case_method<Casing::kCapital>},
    {"endswith", {"suffix"}, 1, &affix_method<false>},
    {"find", {"sub"}, 1, &find_method_of_text},
    {"join", {"iterable"}, 1, &join_method},
    {"lower", {}, 0, &case_method<Casing::kLower>},
    {"lstrip", {"chars"}, 0, &strip_method<Sides::kLeft>},
    {"removeprefix", {"prefix"}, 1, &without_affix_method<true>},
    {"removesuffix", {"suffix"}, 1, &without_affix_method<false>},
    {"replace", {"old", "new", "count"}, 2, &replace_method},
    {"rsplit", {"sep", "maxsplit"}, 0, &rsplit_method},
    {"rstrip", {"chars"}, 0, &strip_method<Sides::kRight>},
    {"split", {"sep", "maxsplit"}, 0, &split_method},
    {"splitlines", {"keepends"}, 0, &splitlines_method},
    {"startswith", {"prefix"}, 1, &affix_method<true>},
    {"strip", {"chars"}, 0, &strip_method<Sides::kBoth>},
    {"title", {}, 0, &case_method<Casing::kTitle>},
    {"upper", {}, 0, &case_method<Casing::kUpper>},
};

constexpr Function kTextFilters[] = {
    {"capitalize", {}, 0, &case_filter<Casing::kCapital>},
    {"indent", {"width", "first", "blank"}, 0, &indent_filter},
    {"join", {"d", "attribute"}, 0, &join_filter},
    {"lower", {}, 0, &case_filter<Casing::kLower>},
    {"replace", {"old", "new", "count"}, 2, &replace_filter},
    {"safe", {}, 0, &safe_filter},
    {"string", {}, 0, &string_filter},
    {"title", {}, 0, &case_filter<Casing::kTitleFilter>},
    {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, &tojson_filter},
    {"trim", {"chars"}, 0, &trim_filter},
    {"upper", {}, 0, &case_filter<Casing::kUpper>},
};

}  // namespace

std::span<const Function> text_methods() {
  return kMethods;
}

std::span<const Function> text_filters() {
  return kTextFilters;
}

}  // namespace kvist::jinja
