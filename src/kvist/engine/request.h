// A generation request as the engine knows it, and what the engine says about it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/engine/sampling/sampling_options.h"
#include "kvist/engine/token_run.h"

namespace kvist::engine {

/// Why a request ended.
enum class FinishReason : std::uint8_t {
  kStop,     ///< the model ended its answer
  kLength,   ///< max_tokens or the context limit is reached
  kAborted,  ///< the client left or the operator stopped it
};

/// Immutable after submission.
struct Request {
  RequestId id;
  /// At least one token. The engine goes on in this very vector: memory reserved for the answer saves it a copy.
  std::vector<TokenId> prompt;
  std::uint32_t max_tokens = 16;  ///< at least one
  std::uint64_t seed = 0;         ///< all randomness of the answer comes from here
  bool ignore_eos = false;        ///< go on to max_tokens
  std::string cache_salt;         ///< requests of different salts never share KV blocks
  /// Null: the defaults. Of it, an executor that makes up its answers heeds min_tokens and logprobs alone.
  std::shared_ptr<const SamplingOptions> sampling = {};
};

/// Tokens a step brought for one request. At most one output per request and step.
struct RequestOutput {
  RequestId id;
  std::optional<FinishReason> finish;  ///< set on the last output of the request
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  ///< prompt tokens taken from the prefix cache at admission
  std::uint32_t output_tokens = 0;  ///< so far, with `tokens`
  TokenRun tokens;                  ///< may be empty when only `finish` is news; last, so that one lies beside the rest
};

}  // namespace kvist::engine
