// The requests that vLLM adds for looking at tokens: POST /tokenize and /detokenize.
#pragma once

#include <cstdint>
#include <optional>
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
  std::optional<bool> add_special_tokens = {};  ///< as PromptOptions has it
  bool return_token_strs = false;               ///< the tokens' spellings too
};

struct DetokenizeRequest {
  std::string model;  ///< empty: whatever is served
  std::vector<TokenId> tokens;
};

[[nodiscard]] Result<TokenizeRequest> parse_tokenize_request(std::string_view body);
[[nodiscard]] Result<DetokenizeRequest> parse_detokenize_request(std::string_view body);

/// What a /tokenize answer of any such server says.
struct TokenizeAnswer {
  std::vector<TokenId> tokens;
  std::uint32_t max_model_len = 0;  ///< 0: it does not say
};
/// Unknown fields are ignored.
[[nodiscard]] Result<TokenizeAnswer> parse_tokenize_answer(std::string_view body);

/// {"count","max_model_len","tokens","token_strs"}; null in place of the last without `spellings`, one per token.
[[nodiscard]] std::string tokenize_answer(std::span<const TokenId> tokens, std::uint32_t max_model_len,
                                          std::span<const std::string> spellings = {});
/// {"prompt"}
[[nodiscard]] std::string detokenize_answer(std::string_view text);

}  // namespace kvist::openai
