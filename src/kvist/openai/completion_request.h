// A client's request to /v1/completions with a prompt of token ids.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kvist/base/id.h"

namespace kvist::openai {

struct ClientTokenRequest {
  std::string model;
  std::span<const TokenId> prompt;
  std::uint32_t max_tokens = 0;
  std::uint64_t seed = 0;
  bool ignore_eos = false;  ///< an extension of vLLM, only sent if true
};
/// The body; the answer is streamed, with usage.
[[nodiscard]] std::string token_request_body(const ClientTokenRequest& request);

}  // namespace kvist::openai
