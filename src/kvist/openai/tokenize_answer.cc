// The answers of /tokenize and /detokenize.
#include <limits>

#include "kvist/openai/json_object_impl.h"
#include "kvist/openai/tokenize.h"

namespace kvist::openai {

Result<TokenizeAnswer> parse_tokenize_answer(std::string_view body) {
  JsonBody json;
  KVIST_TRY(const JsonObject answer, json.parse(body));
  KVIST_TRY(const std::optional<JsonElement> element, answer.find("tokens"));
  simdjson::dom::array array;
  if (!element || element->get(array) != simdjson::SUCCESS)
    return fail(ErrorCode::kInvalidArgument, "tokens: expected an array of token ids");
  TokenizeAnswer read;
  for (const JsonElement item : array) {
    std::uint64_t id = 0;
    if (item.get(id) != simdjson::SUCCESS || id > std::numeric_limits<std::uint32_t>::max())
      return unexpected_value("tokens", "token ids", item);
    read.tokens.emplace_back(static_cast<std::uint32_t>(id));
  }
  const Result<std::optional<std::int64_t>> context =
      answer.find_integer("max_model_len", 0, std::numeric_limits<std::uint32_t>::max());
  if (context && *context) read.max_model_len = static_cast<std::uint32_t>(**context);
  return read;
}

}  // namespace kvist::openai
