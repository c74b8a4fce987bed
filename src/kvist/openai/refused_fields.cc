#include "kvist/openai/refused_fields.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <span>

namespace kvist::openai {
namespace {

// The value of a field, besides null, that means the same as leaving it out.
enum class Neutral : std::uint8_t {
  kNothing,
  kFalse,
  kZero,
  kOne,
  kEmpty,         // "", [] or {}
  kTextFormat,    // {"type":"text"}
  kTextModality,  // ["text"]
  kNoCall,        // "none" or "auto": without functions they mean the same
};

struct RefusedField {
  std::string_view name;
  Neutral neutral;
};

constexpr std::array kRefusedInBoth = std::to_array<RefusedField>({
    {"use_beam_search", Neutral::kFalse},
    {"response_format", Neutral::kTextFormat},
    {"structured_outputs", Neutral::kNothing},
    {"guided_json", Neutral::kNothing},
    {"guided_regex", Neutral::kNothing},
    {"guided_choice", Neutral::kNothing},
    {"guided_grammar", Neutral::kNothing},
    {"bad_words", Neutral::kEmpty},
    {"allowed_token_ids", Neutral::kNothing},
    {"logits_processors", Neutral::kEmpty},
    {"return_tokens_as_token_ids", Neutral::kFalse},
});

constexpr std::array kRefusedInChat = std::to_array<RefusedField>({
    {"best_of", Neutral::kOne},
    {"echo", Neutral::kFalse},
    {"functions", Neutral::kEmpty},
    {"function_call", Neutral::kNoCall},
    {"modalities", Neutral::kTextModality},
    {"audio", Neutral::kNothing},
    {"web_search_options", Neutral::kNothing},
    {"chat_template", Neutral::kNothing},
});

constexpr std::array kRefusedInCompletion = std::to_array<RefusedField>({
    {"suffix", Neutral::kEmpty},
    {"prompt_embeds", Neutral::kEmpty},
});

bool is_empty(const JsonValue& value) {
  if (const auto array = value.if_array()) return array->empty();
  if (const auto object = value.if_object()) return object->size() == 0;
  return value.if_string() == "";
}

bool is_text_format(const JsonValue& value) {
  const std::optional<JsonObject> format = value.if_object();
  if (!format || format->size() != 1) return false;
  const std::optional<JsonValue> type = format->peek("type");
  return type && type->if_string() == "text";
}

bool is_text_modality(const JsonValue& value) {
  const std::optional<JsonArray> modalities = value.if_array();
  return modalities && modalities->size() == 1 && (*modalities->begin()).if_string() == "text";
}

bool is_neutral(const JsonValue& value, Neutral neutral) {
  switch (neutral) {
    case Neutral::kNothing:
      return false;
    case Neutral::kFalse:
      return value.if_bool() == false;
    case Neutral::kZero:
      return value.if_int() == 0;
    case Neutral::kOne:
      return value.if_int() == 1;
    case Neutral::kEmpty:
      return is_empty(value);
    case Neutral::kTextFormat:
      return is_text_format(value);
    case Neutral::kTextModality:
      return is_text_modality(value);
    case Neutral::kNoCall:
      return value.if_string() == "none" || value.if_string() == "auto";
  }
  return false;
}

std::string_view neutral_text(Neutral neutral) {
  switch (neutral) {
    case Neutral::kNothing:
      return "leave it out";
    case Neutral::kFalse:
      return "leave it out or give false";
    case Neutral::kZero:
      return "leave it out or give 0";
    case Neutral::kOne:
      return "leave it out or give 1";
    case Neutral::kEmpty:
      return "leave it out or empty";
    case Neutral::kTextFormat:
      return R"(leave it out or give {"type":"text"})";
    case Neutral::kTextModality:
      return R"(leave it out or give ["text"])";
    case Neutral::kNoCall:
      return R"(leave it out or give "none")";
  }
  return "leave it out";
}

Result<void> refuse_each(const JsonObject& request, std::span<const RefusedField> fields) {
  for (const RefusedField& field : fields) {
    KVIST_TRY(const std::optional<JsonValue> value, request.find(field.name));
    if (!value || is_neutral(*value, field.neutral)) continue;
    return value->unsupported(
        fmt::format("not supported by this server with this value; {}", neutral_text(field.neutral)));
  }
  return {};
}

}  // namespace

Result<void> refuse_unsupported(const JsonObject& request, RequestKind kind) {
  KVIST_TRY_VOID(refuse_each(request, kRefusedInBoth));
  if (kind == RequestKind::kChat) return refuse_each(request, kRefusedInChat);
  return refuse_each(request, kRefusedInCompletion);
}

}  // namespace kvist::openai
