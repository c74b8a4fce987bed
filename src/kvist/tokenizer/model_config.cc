#include "kvist/tokenizer/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>

#include "kvist/base/input_file.h"
#include "kvist/base/json.h"
#include "kvist/tokenizer/document.h"
#include "kvist/tokenizer/limits.h"

namespace kvist::tokenizer {
namespace {

constexpr std::size_t kMaxDepth = 64;
// The names under which templates may use special tokens.
constexpr std::string_view kSpecialNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                              "pad_token", "cls_token", "mask_token"};

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Hugging Face writes "no limit" as an integer of 31 digits, which simdjson refuses. So integers beyond 64 bits get an
// exponent, which makes them floating-point.
std::string with_large_integers_floating(std::string_view json) {
  constexpr std::size_t kDigits = 18;  // any number of so many digits fits 64 bits
  std::string out;
  out.reserve(json.size());
  bool in_string = false;
  for (std::size_t i = 0; i < json.size();) {
    const char c = json[i];
    if (in_string || c < '0' || c > '9') {
      if (c == '"') in_string = !in_string;
      const std::size_t bytes = in_string && c == '\\' ? 2 : 1;
      out += json.substr(i, bytes);
      i += bytes;
      continue;
    }
    const std::size_t number_end = std::min(json.find_first_not_of("0123456789+-.eE", i), json.size());
    const std::string_view number = json.substr(i, number_end - i);
    out += number;
    if (number.size() > kDigits && number.find_first_not_of("0123456789") == std::string_view::npos) out += "e0";
    i = number_end;
  }
  return out;
}

// A JSON file whose root is an object. It has to outlive the values read from it.
class JsonFile {
 public:
  Result<JsonObject> read(const std::string& path) {
    KVIST_TRY(const std::string text, read_file(path, kMostFileBytes));
    document_ = JsonDocument({.name = path, .most_depth = kMaxDepth});
    return document_.parse_object(with_large_integers_floating(text));
  }

 private:
  JsonDocument document_;
};

// "<s>" or {"content": "<s>", ...}
Result<std::string> special_text(const JsonValue& value) {
  if (const auto text = value.if_string()) return std::string(*text);
  KVIST_TRY(const JsonObject token, value.as_object());
  KVIST_TRY(const std::string_view text, token.require_string("content"));
  return std::string(text);
}

// A text, or a list of {"name", "template"}.
Result<void> read_templates(const JsonValue& value, ModelConfig::ChatTemplates& templates) {
  if (const auto text = value.if_string()) {
    templates.plain = *text;
    return {};
  }
  KVIST_TRY(const JsonArray list, value.as_array());
  for (const JsonValue element : list) {
    KVIST_TRY(const JsonObject entry, element.as_object());
    KVIST_TRY(const std::string_view name, entry.require_string("name"));
    KVIST_TRY(const std::string_view source, entry.require_string("template"));
    if (name == "default") templates.plain = source;
    if (name == "tool_use") templates.for_tools = source;
  }
  if (templates.plain.empty()) return value.wrong("none of the templates is called \"default\"");
  return {};
}

Result<ModelConfig> read_tokenizer_config(const std::string& directory) {
  const std::string path = directory + "/tokenizer_config.json";
  ModelConfig config;
  JsonFile file;
  KVIST_TRY(const JsonObject root, file.read(path));
  for (const std::string_view name : kSpecialNames) {
    KVIST_TRY(const std::optional<JsonValue> value, root.find(name));
    if (!value) continue;
    KVIST_TRY(std::string text, special_text(*value));
    if (name == "eos_token") config.end_token = text;
    config.special_texts.emplace_back(name, std::move(text));
  }
  const std::string template_path = directory + "/chat_template.jinja";
  if (exists(template_path)) {
    config.templates.path = template_path;
    KVIST_TRY(config.templates.plain, read_file(template_path, kMostFileBytes));
    // Where Hugging Face's library saves the other named templates now.
    const std::string for_tools_path = directory + "/additional_chat_templates/tool_use.jinja";
    if (exists(for_tools_path)) {
      config.templates.path += " and " + for_tools_path;
      KVIST_TRY(config.templates.for_tools, read_file(for_tools_path, kMostFileBytes));
    }
    return config;
  }
  KVIST_TRY(const std::optional<JsonValue> templates, root.find("chat_template"));
  if (templates) {
    config.templates.path = path + ": chat_template";
    KVIST_TRY_VOID(read_templates(*templates, config.templates));
  }
  return config;
}

// eos_token_id: one id or a list of them.
Result<std::vector<TokenId>> read_end_tokens(const std::string& path) {
  std::vector<TokenId> ids;
  if (!exists(path)) return ids;
  JsonFile file;
  KVIST_TRY(const JsonObject root, file.read(path));
  KVIST_TRY(const std::optional<JsonValue> value, root.find("eos_token_id"));
  if (!value) return ids;
  const auto add = [&ids](const JsonValue& item) -> Result<void> {
    KVIST_TRY(const std::uint64_t id, item.as_unsigned(0, std::numeric_limits<std::int32_t>::max()));
    ids.emplace_back(static_cast<std::uint32_t>(id));
    return {};
  };
  if (const std::optional<JsonArray> list = value->if_array()) {
    for (const JsonValue item : *list) KVIST_TRY_VOID(add(item));
  } else {
    KVIST_TRY_VOID(add(*value));
  }
  return ids;
}

}  // namespace

Result<ModelConfig> ModelConfig::load(const std::string& directory) {
  KVIST_TRY(ModelConfig config, read_tokenizer_config(directory));
  KVIST_TRY(config.end_tokens, read_end_tokens(directory + "/generation_config.json"));
  if (config.end_tokens.empty()) {
    KVIST_TRY(config.end_tokens, read_end_tokens(directory + "/config.json"));
  }
  return config;
}

}  // namespace kvist::tokenizer
