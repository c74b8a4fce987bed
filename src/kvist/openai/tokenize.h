// The requests that vLLM adds for looking at tokens: POST /tokenize and /detokenize.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/openai/types.h"

namespace kvist::openai {

struct TokenizeRequest {
  std::string model;  ///< empty: whatever is served
  std::variant<std::string, ChatPrompt> input;
};

struct DetokenizeRequest {
  std::string model;  ///< empty: whatever is served
  std::vector<TokenId> tokens;
};

[[nodiscard]] Result<TokenizeRequest> parse_tokenize_request(std::string_view body);
[[nodiscard]] Result<DetokenizeRequest> parse_detokenize_request(std::string_view body);

/// The tokens that a /tokenize answer of any such server holds. Unknown fields are ignored.
[[nodiscard]] Result<std::vector<TokenId>> parse_tokenize_answer(std::string_view body);

/// {"count","max_model_len","tokens"}
[[nodiscard]] std::string tokenize_answer(std::span<const TokenId> tokens, std::uint32_t max_model_len);
/// {"prompt"}
[[nodiscard]] std::string detokenize_answer(std::string_view text);

}  // namespace kvist::openai
