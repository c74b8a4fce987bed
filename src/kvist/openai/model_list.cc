// The model lists of other servers.
#include <fmt/format.h>

#include <utility>

#include "kvist/openai/codec.h"
#include "kvist/openai/json_object_impl.h"

namespace kvist::openai {

Result<std::vector<ModelCard>> parse_model_list(std::string_view body) {
  JsonBody json;
  KVIST_TRY(const JsonObject answer, json.parse(body));
  KVIST_TRY(const std::optional<JsonElement> data, answer.find("data"));
  simdjson::dom::array array;
  if (!data || data->get(array) != simdjson::SUCCESS)
    return fail(ErrorCode::kCorrupt, "data: expected an array of models");
  std::vector<ModelCard> models;
  for (const JsonElement element : array) {
    if (models.size() == kMaxModels)
      return fail(ErrorCode::kTooLarge, fmt::format("data: more than {} models", kMaxModels));
    KVIST_TRY(const JsonObject model, JsonObject::from(element, fmt::format("data[{}]", models.size())));
    KVIST_TRY(const std::optional<std::string_view> id, model.find_string("id"));
    if (!id) return fail(ErrorCode::kCorrupt, model.path_of("id") + ": required, but missing");
    models.push_back({.id = std::string(*id), .json = simdjson::minify(element)});
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
