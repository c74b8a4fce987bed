// The answers of /tokenize and /detokenize.
#include <limits>

#include "kvist/openai/json_body.h"
#include "kvist/openai/sampling_fields.h"
#include "kvist/openai/tokenize.h"

namespace kvist::openai {

Result<TokenizeAnswer> parse_tokenize_answer(std::string_view body) {
  JsonBody json;
  KVIST_TRY(const JsonObject answer, json.parse(body));
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  KVIST_TRY(const JsonArray tokens, answer.require_array("tokens", "an array of token ids"));
  TokenizeAnswer read;
  for (const JsonValue item : tokens) {
    KVIST_TRY(const TokenId token, read_token(item));
    read.tokens.push_back(token);
  }
  const std::optional<JsonValue> context = answer.peek("max_model_len");
  const std::uint64_t length = context ? context->if_unsigned().value_or(0) : 0;
  if (length <= kMost) read.max_model_len = static_cast<std::uint32_t>(length);
  return read;
}

}  // namespace kvist::openai
