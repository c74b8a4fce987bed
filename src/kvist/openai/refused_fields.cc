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
    {"best_of", Neutral::kOne},
    {"prompt_logprobs", Neutral::kNothing},
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
    {"echo", Neutral::kFalse},
});

constexpr std::array kRefusedInChat = std::to_array<RefusedField>({
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

bool is_false(JsonElement element) {
  bool flag = true;
  return element.get(flag) == simdjson::SUCCESS && !flag;
}

bool is_integer(JsonElement element, std::int64_t wanted) {
  std::int64_t number = 0;
  return element.get(number) == simdjson::SUCCESS && number == wanted;
}

bool is_text(JsonElement element, std::string_view wanted) {
  std::string_view text;
  return element.get(text) == simdjson::SUCCESS && text == wanted;
}

bool is_empty(JsonElement element) {
  simdjson::dom::array array;
  if (element.get(array) == simdjson::SUCCESS) return array.size() == 0;
  simdjson::dom::object object;
  if (element.get(object) == simdjson::SUCCESS) return object.size() == 0;
  return is_text(element, "");
}

bool is_text_format(JsonElement element) {
  simdjson::dom::object format;
  if (element.get(format) != simdjson::SUCCESS || format.size() != 1) return false;
  JsonElement type;
  return format.at_key("type").get(type) == simdjson::SUCCESS && is_text(type, "text");
}

bool is_text_modality(JsonElement element) {
  simdjson::dom::array modalities;
  if (element.get(modalities) != simdjson::SUCCESS || modalities.size() != 1) return false;
  return is_text(*modalities.begin(), "text");
}

bool is_neutral(JsonElement element, Neutral neutral) {
  switch (neutral) {
    case Neutral::kNothing:
      return false;
    case Neutral::kFalse:
      return is_false(element);
    case Neutral::kZero:
      return is_integer(element, 0);
    case Neutral::kOne:
      return is_integer(element, 1);
    case Neutral::kEmpty:
      return is_empty(element);
    case Neutral::kTextFormat:
      return is_text_format(element);
    case Neutral::kTextModality:
      return is_text_modality(element);
    case Neutral::kNoCall:
      return is_text(element, "none") || is_text(element, "auto");
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
    KVIST_TRY(const std::optional<JsonElement> element, request.find(field.name));
    if (!element || is_neutral(*element, field.neutral)) continue;
    return fail(ErrorCode::kUnsupported, fmt::format("{}: not supported by this server with this value; {}", field.name,
                                                     neutral_text(field.neutral)));
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
