// The model lists of other servers.
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "kvist/openai/codec.h"
#include "kvist/openai/json_body.h"

namespace kvist::openai {

namespace {

// Null, a missing field and what is no text say nothing.
std::string text_or_empty(const JsonObject& model, std::string_view key) {
  const std::optional<JsonValue> value = model.peek(key);
  return std::string(value ? value->if_string().value_or("") : "");
}

}  // namespace

Result<std::vector<ModelCard>> parse_model_list(std::string_view body) {
  JsonBody json;
  KVIST_TRY(const JsonObject answer, json.parse(body));
  KVIST_TRY(const JsonArray data, answer.require_array("data", "an array of models"));
  std::vector<ModelCard> models;
  for (const JsonValue element : data) {
    if (models.size() == kMaxModels)
      return data.value().error(ErrorCode::kTooLarge, fmt::format("more than {} models", kMaxModels));
    KVIST_TRY(const JsonObject model, element.as_object());
    KVIST_TRY(const std::string_view id, model.require_string("id"));
    // Only vLLM and kvist report it. What is no length is no reason to refuse a list.
    const std::optional<JsonValue> length = model.peek("max_model_len");
    const std::uint64_t tokens = length ? length->if_unsigned().value_or(0) : 0;
    models.push_back({.id = std::string(id),
                      .json = element.minified(),
                      .max_model_len = tokens <= UINT32_MAX ? static_cast<std::uint32_t>(tokens) : 0,
                      .parent = text_or_empty(model, "parent"),
                      .root = text_or_empty(model, "root")});
  }
  return models;
}

std::string model_list(const std::vector<ModelCard>& models) {
  std::string list = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (i > 0) list += ',';
    list += models[i].json;
  }
  list += "]}";
  return list;
}

}  // namespace kvist::openai
