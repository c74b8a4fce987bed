// with_usage_requested(), with_model() and with_priority() change, and model_of() and priority_of() read, a few bytes
// in the client's JSON text. The text is not written again from parsed values, because the gateway forwards it
// unchanged, with its spelling of numbers, order of keys, unknown fields and white space.
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/openai/body_edit.h"
#include "kvist/openai/codec.h"

namespace kvist::openai {
namespace {

// One replacement of text[position, position + length).
struct Edit {
  std::size_t position = 0;
  std::size_t length = 0;
  std::string_view replacement;
};

// The raw text of one field of an object.
struct RawField {
  std::string_view key;  // with quotes
  std::size_t value_begin = 0;
  std::size_t value_end = 0;
};

// Scans JSON text by position. It does not check the text, which was parsed before.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // The position of the next character that is not white space, or the size of the text.
  [[nodiscard]] std::size_t skip_space(std::size_t at) const {
    const std::size_t found = text_.find_first_not_of(" \t\r\n", at);
    return found == std::string_view::npos ? text_.size() : found;
  }

  // The position of the text's value. Workers in Python read a text with a byte order mark.
  [[nodiscard]] std::size_t begin() const {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    return skip_space(text_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  }

  [[nodiscard]] char at(std::size_t position) const { return position < text_.size() ? text_[position] : '\0'; }

  // The position after the string that begins at `begin`; npos if it does not end.
  [[nodiscard]] std::size_t skip_string(std::size_t begin) const {
    for (std::size_t i = begin + 1; i < text_.size(); ++i) {
      if (text_[i] == '\\') {
        ++i;
      } else if (text_[i] == '"') {
        return i + 1;
      }
    }
    return std::string_view::npos;
  }

  // The position after the value that begins at `begin`; npos if it does not end.
  [[nodiscard]] std::size_t skip_value(std::size_t begin) const {
    if (at(begin) == '"') return skip_string(begin);
    if (at(begin) != '{' && at(begin) != '[') {
      const std::size_t end = text_.find_first_of(" \t\r\n,]}", begin);
      return end == begin ? std::string_view::npos : end;
    }
    std::size_t depth = 0;
    for (std::size_t i = begin; i < text_.size();) {
      const char c = text_[i];
      if (c == '"') {
        i = skip_string(i);
        if (i == std::string_view::npos) return i;
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++i;
      if (depth == 0) return i;
    }
    return std::string_view::npos;
  }

  // The fields of the object that begins at `begin`; false if it is none.
  [[nodiscard]] bool fields(std::size_t begin, std::vector<RawField>& out) const {
    return for_each_field(begin, [&out](const RawField& field) {
      out.push_back(field);
      return true;
    });
  }

  // Calls `visit` with each field of the object that begins at `begin`, until it returns false. Returns false if the
  // text is no object, as far as it was looked at.
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
  std::string_view text_;
};

// Whether a raw key, with its quotes and possibly escapes, names `field`.
bool names(std::string_view key, std::string_view field) {
  if (key.find('\\') == std::string_view::npos) return key.substr(1, key.size() - 2) == field;
  JsonDocument document;
  const Result<JsonValue> decoded = document.parse(key);
  return decoded && decoded->if_string() == field;
}

constexpr std::string_view kWholeField = R"("stream_options":{"include_usage":true})";
constexpr std::string_view kWholeFieldComma = R"("stream_options":{"include_usage":true},)";
constexpr std::string_view kOptions = R"({"include_usage":true})";
constexpr std::string_view kInclude = R"("include_usage":true)";
constexpr std::string_view kIncludeComma = R"("include_usage":true,)";

std::unexpected<Error> not_editable(std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, std::string(what));
}

// Sets every include_usage of a stream_options value to true, so that it does not matter which one a reader uses.
Result<void> edit_options(std::string_view body, const RawField& options, std::vector<Edit>& edits) {
  const std::size_t length = options.value_end - options.value_begin;
  if (body.substr(options.value_begin, length) == "null") {
    edits.push_back({options.value_begin, length, kOptions});
    return {};
  }
  std::vector<RawField> fields;
  if (!Scanner(body).fields(options.value_begin, fields))
    return not_editable("stream_options: expected an object or null");
  bool found = false;
  bool asks = false;
  bool continuous = false;
  for (const RawField& field : fields) {
    const std::size_t value_length = field.value_end - field.value_begin;
    const std::string_view value = body.substr(field.value_begin, value_length);
    if (names(field.key, "continuous_usage_stats")) continuous = value != "false" && value != "null";
    if (!names(field.key, "include_usage")) continue;
    found = true;
    asks = value == "true";
    if (!asks) edits.push_back({field.value_begin, value_length, "true"});
  }
  if (continuous && !asks) {
    // Alone it has no effect in vLLM and gives usage in every chunk in SGLang. In both cases the client's choice is
    // kept.
    edits.clear();
    return {};
  }
  if (!found) edits.push_back({options.value_begin + 1, 0, fields.empty() ? kInclude : kIncludeComma});
  return {};
}

std::string with_edits(std::string_view body, const std::vector<Edit>& edits) {
  std::string out;
  out.reserve(body.size() + 64);
  std::size_t done = 0;
  for (const Edit& edit : edits) {
    out.append(body, done, edit.position - done);
    out += edit.replacement;
    done = edit.position + edit.length;
  }
  out.append(body, done);
  return out;
}

}  // namespace

std::optional<std::string> model_of(std::string_view body) {
  const Scanner scanner(body);
  std::optional<std::string> model;
  const bool readable = scanner.for_each_field(scanner.begin(), [&](const RawField& field) {
    if (!names(field.key, "model")) return true;
    JsonDocument document;
    const Result<JsonValue> value = document.parse(body.substr(field.value_begin, field.value_end - field.value_begin));
    if (const auto text = value ? value->if_string() : std::nullopt) model = std::string(*text);
    return false;
  });
  return readable ? model : std::nullopt;
}

Result<std::string> with_model(std::string_view body, std::string_view model) {
  const Scanner scanner(body);
  std::vector<RawField> fields;
  if (!scanner.fields(scanner.begin(), fields)) return not_editable("body: not a JSON object");
  std::string name;
  append_json_string(name, model);
  std::vector<Edit> edits;
  for (const RawField& field : fields)
    if (names(field.key, "model")) edits.push_back({field.value_begin, field.value_end - field.value_begin, name});
  return with_edits(body, edits);
}

AskedPriority priority_of(std::string_view body) {
  const Scanner scanner(body);
  AskedPriority asked;
  bool is_second = false;
  const bool readable = scanner.for_each_field(scanner.begin(), [&](const RawField& field) {
    const std::string_view value = body.substr(field.value_begin, field.value_end - field.value_begin);
    if (!names(field.key, "priority") || value == "null") return true;
    std::int32_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = error == std::errc() && end == value.data() + value.size();
    asked.is_plain = is_number && !std::exchange(is_second, true);
    asked.value = asked.is_plain ? number : 0;
    return true;
  });
  return readable ? asked : AskedPriority();
}

Result<std::string> with_priority(std::string_view body, std::int32_t priority) {
  const Scanner scanner(body);
  const std::size_t begin = scanner.begin();
  std::vector<RawField> fields;
  if (!scanner.fields(begin, fields)) return not_editable("body: not a JSON object");
  const std::string number = std::to_string(priority);
  std::vector<Edit> edits;
  for (const RawField& field : fields)
    if (names(field.key, "priority")) edits.push_back({field.value_begin, field.value_end - field.value_begin, number});
  const std::string member = "\"priority\":" + number + (fields.empty() ? "" : ",");
  if (edits.empty()) edits.push_back({begin + 1, 0, member});
  return with_edits(body, edits);
}

Result<std::string> with_usage_requested(std::string_view body) {
  const Scanner scanner(body);
  const std::size_t begin = scanner.begin();
  std::vector<RawField> fields;
  if (!scanner.fields(begin, fields)) return not_editable("body: not a JSON object");
  std::vector<Edit> edits;
  bool found = false;
  for (const RawField& field : fields) {
    if (!names(field.key, "stream_options")) continue;
    found = true;
    KVIST_TRY_VOID(edit_options(body, field, edits));
  }
  if (!found) edits.push_back({begin + 1, 0, fields.empty() ? kWholeField : kWholeFieldComma});
  return with_edits(body, edits);
}

}  // namespace kvist::openai
