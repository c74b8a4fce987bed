// From the bodies of requests to what the engine is asked for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/openai/types.h"
#include "kvist/spec/deployment.h"
#include "kvist/text/chat.h"
#include "kvist/tokenizer/tokenizer.h"
#include "kvist/worker/answer.h"

namespace kvist::worker {

/// A request that was read, tokenized and checked: what is left to do for it does not grow with its body.
struct GenerationRequest {
  openai::GenerationOptions options;
  std::vector<std::vector<TokenId>> prompts;  ///< at least one
  AnswerOptions answer;                       ///< without what the caller determines
};

/// Parses, renders and tokenizes, which for a body of 16 MiB takes most of a second. Immutable. Threads: any.
class RequestReader {
 public:
  /// The engine takes tokens below `vocabulary`, which may be fewer than the tokenizer has. Requires: all other
  /// arguments outlive it.
  RequestReader(const spec::WorkerSpec& spec, const tokenizer::Tokenizer& tokenizer,
                const text::ChatTemplate& chat_template,
                std::uint32_t vocabulary = std::numeric_limits<std::uint32_t>::max())
      : spec_(&spec),
        tokenizer_(&tokenizer),
        chat_template_(&chat_template),
        vocabulary_(std::min(vocabulary, tokenizer.vocabulary_size())) {}

  /// Of /v1/chat/completions and /v1/completions. Errors: of all that can be wrong with a request by itself.
  [[nodiscard]] Result<GenerationRequest> chat(std::string_view body) const;
  [[nodiscard]] Result<GenerationRequest> completion(std::string_view body) const;

  /// The most tokens that /tokenize lists, or as many as the context has; and the most bytes of a text that /detokenize
  /// gives. A small body could ask for far more.
  static constexpr std::size_t kMostListedTokens = 1UL << 20;
  static constexpr std::size_t kMostTextBytes = 16UL << 20;
  /// The answers of /tokenize and /detokenize.
  [[nodiscard]] Result<std::string> tokenize(std::string_view body) const;
  [[nodiscard]] Result<std::string> detokenize(std::string_view body) const;

 private:
  /// The prompt tokens of a chat or of one completion prompt, checked against the vocabulary. Errors include
  /// kUnsupported for what the template does not write.
  [[nodiscard]] Result<std::vector<TokenId>> tokens_of(const openai::ChatPrompt& chat,
                                                       const openai::PromptOptions& options) const;
  [[nodiscard]] Result<std::vector<TokenId>> tokens_of(const openai::Prompt& prompt, std::string_view path,
                                                       const openai::PromptOptions& options) const;
  /// The text that the answer to an echoed prompt begins with.
  [[nodiscard]] std::string echo_of(const openai::Prompt& prompt, const openai::PromptOptions& options,
                                    std::span<const TokenId> tokens) const;
  [[nodiscard]] Result<void> check_model(std::string_view model) const;
  [[nodiscard]] Result<void> check_lengths(const GenerationRequest& request) const;
  /// Checks the request, and fills in what of its answer its options determine.
  [[nodiscard]] Result<GenerationRequest> checked(GenerationRequest request) const;

  const spec::WorkerSpec* spec_;
  const tokenizer::Tokenizer* tokenizer_;
  const text::ChatTemplate* chat_template_;
  std::uint32_t vocabulary_;
};

}  // namespace kvist::worker
