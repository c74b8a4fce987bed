// Converts a request's options to the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/engine/sampling/sampling_options.h"
#include "kvist/openai/types.h"
#include "kvist/spec/deployment.h"
#include "kvist/text/chat.h"

namespace kvist::worker {

/// Refuses options that this worker's engine cannot honour; none are ignored. `prompts` is the number of prompts.
/// Errors: kUnsupported with the field, kInvalidArgument (more answers than one request may have, or than can wait here
/// at any time; a token outside of `vocabulary`).
[[nodiscard]] Result<void> check_options(const openai::GenerationOptions& options, std::size_t prompts,
                                         const spec::WorkerSpec& worker, std::uint32_t vocabulary);

/// Refuses log probabilities of prompts that would be too many to keep and to send.
[[nodiscard]] Result<void> check_prompt_logprobs(const openai::GenerationOptions& options,
                                                 std::span<const std::vector<TokenId>> prompts);
/// The most log probabilities of the prompts of one request, counted with those of the likeliest tokens and for each
/// answer; and those of a stream, which are written at once.
inline constexpr std::uint64_t kMaxPromptLogprobs = 1UL << 18;
inline constexpr std::uint64_t kMaxStreamedPromptLogprobs = 1UL << 15;

/// Refuses log probabilities of answers that are not streamed, where they would be too many to keep until they are
/// sent: `max_tokens` allows more than kMaxAnswerLogprobs. Without `max_tokens` the answers end where no more may come,
/// so that a request whose answers are short need not know of this. Requires: the prompts fit `max_model_len`.
[[nodiscard]] Result<void> bound_answer_logprobs(openai::GenerationOptions& options,
                                                 std::span<const std::vector<TokenId>> prompts,
                                                 std::uint32_t max_model_len);
/// The most log probabilities of all answers to one request, counted with those of the likeliest tokens: some 50 MB of
/// JSON, which a gateway passes on (64 MiB at most).
inline constexpr std::uint64_t kMaxAnswerLogprobs = 1UL << 19;

/// Refuses prompts that an answer would repeat too often: their texts (`echoes`, if the request asks for them) and
/// their tokens (return_token_ids) come once for each answer.
[[nodiscard]] Result<void> check_repeated_prompts(const openai::GenerationOptions& options,
                                                  std::span<const std::string> echoes,
                                                  std::span<const std::vector<TokenId>> prompts);
/// The most bytes of JSON that repeat the prompts of one request, which are made at once at its end; and those of a
/// stream, which are written when its answers begin, and must not wait for a client that reads.
inline constexpr std::uint64_t kMaxRepeatedBytes = 64UL << 20;
inline constexpr std::uint64_t kMaxStreamedRepeatedBytes = 1UL << 20;

/// Refuses a resumption (kvist_resume) that this worker cannot carry out exactly. `one_text`: the answer is one choice,
/// of text only.
[[nodiscard]] Result<void> check_resumption(const openai::GenerationOptions& options, bool one_text,
                                            std::uint32_t vocabulary);

/// Refuses parts of a chat that its prompt would not contain; the error names them. `tokenizer` is the worker's, empty
/// for bytes.
[[nodiscard]] Result<void> check_template(const openai::ChatPrompt& chat, const text::ChatTemplate& chat_template,
                                          const std::string& tokenizer);

/// The sampling options for an engine that computes.
[[nodiscard]] std::shared_ptr<const engine::SamplingOptions> sampling_of(const openai::GenerationOptions& request);

}  // namespace kvist::worker
