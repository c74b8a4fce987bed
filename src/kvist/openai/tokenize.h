// vLLM's requests about tokens: POST /tokenize and /detokenize.
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
  std::string model;  ///< empty: the served model
  std::variant<std::string, ChatPrompt> input;
  std::optional<bool> add_special_tokens = {};  ///< see PromptOptions
  bool return_token_strs = false;               ///< the tokens' spellings too
};

struct DetokenizeRequest {
  std::string model;  ///< empty: the served model
  std::vector<TokenId> tokens;
};

[[nodiscard]] Result<TokenizeRequest> parse_tokenize_request(std::string_view body);
[[nodiscard]] Result<DetokenizeRequest> parse_detokenize_request(std::string_view body);

/// The answer of /tokenize from any server that has it.
struct TokenizeAnswer {
  std::vector<TokenId> tokens;
  std::uint32_t max_model_len = 0;  ///< 0: not given
};
/// Unknown fields are ignored.
[[nodiscard]] Result<TokenizeAnswer> parse_tokenize_answer(std::string_view body);

/// {"count","max_model_len","tokens","token_strs"}. `spellings` has one element per token; without it the last member
/// is null.
[[nodiscard]] std::string tokenize_answer(std::span<const TokenId> tokens, std::uint32_t max_model_len,
                                          std::span<const std::string> spellings = {});
/// {"prompt"}
[[nodiscard]] std::string detokenize_answer(std::string_view text);

}  // namespace kvist::openai
