// with_usage_requested(), with_usage_in_any_case(), with_model() and with_priority() change, and model_of() and
// priority_of() read, a few bytes in the client's JSON text. The text is not written again from parsed values, because
// the gateway forwards it unchanged, with its spelling of numbers, order of keys, unknown fields and white space.
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/openai/body_edit.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/json_body.h"
#include "kvist/openai/json_scanner.h"

namespace kvist::openai {
namespace {

// One replacement of text[position, position + length).
struct Edit {
  std::size_t position = 0;
  std::size_t length = 0;
  std::string_view replacement;
};

// Whether a raw key, with its quotes and possibly escapes, names `field`.
bool names(std::string_view key, std::string_view field) {
  if (key.find('\\') == std::string_view::npos) return key.substr(1, key.size() - 2) == field;
  constexpr std::size_t kMostPerCharacter = 6;  // a character is one byte here, and an escape has at most so many
  if (key.size() > 2 + kMostPerCharacter * field.size()) return false;
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
// `always`: also where the client asks for usage in another way.
Result<void> edit_options(std::string_view body, const RawField& options, bool always, std::vector<Edit>& edits) {
  const std::size_t length = options.value_end - options.value_begin;
  if (body.substr(options.value_begin, length) == "null") {
    edits.push_back({options.value_begin, length, kOptions});
    return {};
  }
  std::vector<RawField> fields;
  if (!JsonScanner(body).fields(options.value_begin, fields))
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
  if (continuous && !asks && !always) {
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
  const JsonScanner scanner(body);
  std::optional<std::string> model;
  std::size_t fields = 0;
  const bool readable = scanner.for_each_field(scanner.begin(), [&](const RawField& field) {
    if (!names(field.key, "model")) return ++fields < JsonObject::kMostNamed;
    JsonDocument document;
    const Result<JsonValue> value = document.parse(body.substr(field.value_begin, field.value_end - field.value_begin));
    if (const auto text = value ? value->if_string() : std::nullopt) model = std::string(*text);
    return false;
  });
  return readable ? model : std::nullopt;
}

std::optional<Error> model_problem(std::string_view body) {
  JsonBody json;
  const Result<JsonObject> root = json.parse(body);
  if (!root) return root.error();
  const std::optional<JsonValue> value = root->peek("model");
  if (!value) return std::nullopt;
  const auto text = value->as_string();
  return text ? std::nullopt : std::optional(text.error());
}

Result<std::string> with_model(std::string_view body, std::string_view model) {
  const JsonScanner scanner(body);
  std::vector<RawField> fields;
  if (!scanner.fields(scanner.begin(), fields)) return not_editable("body: not a JSON object, or of too many fields");
  std::string name;
  append_json_string(name, model);
  std::vector<Edit> edits;
  for (const RawField& field : fields)
    if (names(field.key, "model")) edits.push_back({field.value_begin, field.value_end - field.value_begin, name});
  return with_edits(body, edits);
}

AskedPriority priority_of(std::string_view body) {
  const JsonScanner scanner(body);
  AskedPriority asked;
  bool is_second = false;
  bool is_endless = false;
  std::size_t fields = 0;
  const bool readable = scanner.for_each_field(scanner.begin(), [&](const RawField& field) {
    is_endless = ++fields > JsonObject::kMostNamed;
    if (is_endless) return false;
    const std::string_view value = body.substr(field.value_begin, field.value_end - field.value_begin);
    if (!names(field.key, "priority") || value == "null") return true;
    std::int32_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = error == std::errc() && end == value.data() + value.size();
    const bool second = std::exchange(is_second, true);
    asked.is_plain = is_number && !second;
    asked.value = asked.is_plain ? number : 0;
    return true;
  });
  if (is_endless) return {.is_plain = false, .is_known = false};
  return readable ? asked : AskedPriority();
}

Result<std::string> with_priority(std::string_view body, std::int32_t priority) {
  const JsonScanner scanner(body);
  const std::size_t begin = scanner.begin();
  std::vector<RawField> fields;
  if (!scanner.fields(begin, fields)) return not_editable("body: not a JSON object, or of too many fields");
  const std::string number = std::to_string(priority);
  std::vector<Edit> edits;
  for (const RawField& field : fields)
    if (names(field.key, "priority")) edits.push_back({field.value_begin, field.value_end - field.value_begin, number});
  const std::string member = "\"priority\":" + number + (fields.empty() ? "" : ",");
  if (edits.empty()) edits.push_back({begin + 1, 0, member});
  return with_edits(body, edits);
}

namespace {

Result<std::string> with_usage_in_options(std::string_view body, bool always) {
  const JsonScanner scanner(body);
  const std::size_t begin = scanner.begin();
  std::vector<RawField> fields;
  if (!scanner.fields(begin, fields)) return not_editable("body: not a JSON object, or of too many fields");
  std::vector<Edit> edits;
  bool found = false;
  for (const RawField& field : fields) {
    if (!names(field.key, "stream_options")) continue;
    found = true;
    KVIST_TRY_VOID(edit_options(body, field, always, edits));
  }
  if (!found) edits.push_back({begin + 1, 0, fields.empty() ? kWholeField : kWholeFieldComma});
  return with_edits(body, edits);
}

}  // namespace

Result<std::string> with_usage_requested(std::string_view body) {
  return with_usage_in_options(body, false);
}

Result<std::string> with_usage_in_any_case(std::string_view body) {
  return with_usage_in_options(body, true);
}

// Readers in Python take the last of several fields, and 1 for true.
bool asks_for_stream(std::string_view body) {
  const JsonScanner scanner(body);
  bool asks = false;
  std::size_t fields = 0;
  const bool readable = scanner.for_each_field(scanner.begin(), [&](const RawField& field) {
    if (names(field.key, "stream")) {
      const std::string_view value = body.substr(field.value_begin, field.value_end - field.value_begin);
      asks = value != "false" && value != "null" && value != "0";
    }
    return ++fields < JsonObject::kMostNamed;
  });
  return readable && asks;
}

}  // namespace kvist::openai
