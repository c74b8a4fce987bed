// A generation request to the engine, and its outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/engine/sampling/sampling_options.h"
#include "kvist/engine/token_run.h"
#include "kvist/kv/block_hash.h"

namespace kvist::engine {

/// Why a request ended.
enum class FinishReason : std::uint8_t {
  kStop,     ///< the model ended the answer
  kLength,   ///< max_tokens or the context limit is reached
  kAborted,  ///< the client left or the operator stopped it
};

/// Immutable after submission.
struct Request {
  RequestId id;
  /// Behind `named_tokens`: both together are at least one token. The engine appends the answer to this vector, so
  /// memory reserved for the answer saves a copy.
  std::vector<TokenId> prompt;
  /// So many tokens come before `prompt`, of which nobody has more than the hashes of their blocks in `prompt_blocks`:
  /// whole blocks. For engines that neither read tokens nor tell them (CoreOptions::tells_tokens).
  std::uint32_t named_tokens = 0;
  /// The block hashes of the prompt's complete blocks, if whoever submits it has computed what the engine would. Null:
  /// the engine does.
  std::shared_ptr<const std::vector<kv::BlockHash>> prompt_blocks = {};
  std::uint32_t max_tokens = 16;  ///< at least one
  std::uint64_t seed = 0;         ///< the only source of randomness of the answer
  bool ignore_eos = false;        ///< continue to max_tokens
  std::int32_t priority = 0;      ///< of waiting requests, those with a lower one are admitted first
  /// The last tokens of `prompt` that belong to an answer which another engine began: the next token's position in the
  /// answer is behind them. max_tokens does not count them, the options' min_tokens does.
  std::uint32_t resumed = 0;
  std::string cache_salt;  ///< requests with different salts never share KV blocks
  /// Null: the defaults. An executor that makes up its answers uses only min_tokens and logprobs of it.
  std::shared_ptr<const SamplingOptions> sampling = {};

  [[nodiscard]] std::uint32_t prompt_tokens() const { return named_tokens + static_cast<std::uint32_t>(prompt.size()); }
};

/// The tokens of a step for one request. There is at most one output per request and step.
struct RequestOutput {
  RequestId id;
  std::optional<FinishReason> finish;  ///< set on the last output of the request
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  ///< prompt tokens taken from the prefix cache at admission
  std::uint32_t output_tokens = 0;  ///< so far, including `tokens`
  std::uint32_t run_tokens = 0;     ///< of these, so many before `tokens` are in StepOutputs::run_tokens
  TokenRun
      tokens;  ///< may be empty if only `finish` is new; the last member, so that the first token is next to the others
};

}  // namespace kvist::engine
