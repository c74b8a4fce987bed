// What a request asks of the engine, in the engine's terms.
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

/// Refuses, by name, what this worker's engine cannot honour: nothing is ignored. `prompts`: of the request. Errors:
/// kUnsupported, kInvalidArgument (too many answers, a token outside of `vocabulary`).
[[nodiscard]] Result<void> check_options(const openai::GenerationOptions& options, std::size_t prompts,
                                         const spec::WorkerSpec& worker, std::uint32_t vocabulary);

/// Refuses, by name, what a chat asks for and its prompt would not hold. `tokenizer`: the worker's, empty for bytes.
[[nodiscard]] Result<void> check_template(const openai::ChatPrompt& chat, const text::ChatTemplate& chat_template,
                                          const std::string& tokenizer);

/// How an engine that computes chooses tokens.
[[nodiscard]] std::shared_ptr<const engine::SamplingOptions> sampling_of(const openai::Sampling& sampling);

}  // namespace kvist::worker
