// Converts a request's options to the engine's.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kvist/base/error.h"
#include "kvist/engine/sampling/sampling_options.h"
#include "kvist/openai/types.h"
#include "kvist/spec/deployment.h"
#include "kvist/text/chat.h"

namespace kvist::worker {

/// Refuses options that this worker's engine cannot honour; none are ignored. `prompts` is the number of prompts.
/// Errors: kUnsupported with the field, kInvalidArgument (too many answers, a token outside of `vocabulary`).
[[nodiscard]] Result<void> check_options(const openai::GenerationOptions& options, std::size_t prompts,
                                         const spec::WorkerSpec& worker, std::uint32_t vocabulary);

/// Refuses a resumption (kvist_resume) that this worker cannot carry out exactly. `one_text`: the answer is one choice,
/// of text only.
[[nodiscard]] Result<void> check_resumption(const openai::GenerationOptions& options, bool one_text,
                                            std::uint32_t vocabulary);

/// Refuses parts of a chat that its prompt would not contain; the error names them. `tokenizer` is the worker's, empty
/// for bytes.
[[nodiscard]] Result<void> check_template(const openai::ChatPrompt& chat, const text::ChatTemplate& chat_template,
                                          const std::string& tokenizer);

/// The sampling options for an engine that computes.
[[nodiscard]] std::shared_ptr<const engine::SamplingOptions> sampling_of(const openai::Sampling& sampling);

}  // namespace kvist::worker
