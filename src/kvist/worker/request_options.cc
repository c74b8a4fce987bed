#include "kvist/worker/request_options.h"

#include <fmt/format.h>

namespace kvist::worker {
namespace {

// The timed engine makes up its answers from the seed, so options that change the choice of tokens have no effect.
// Temperature and the other options that every client sends are accepted, because load tests send them. The length of
// an answer is honoured, and log probabilities are made up as the tokens are.
Result<void> check_timed(const openai::Sampling& sampling) {
  const auto refused = [](std::string_view field) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: not supported by the timed engine, which makes up its answers; leave it out", field));
  };
  if (!sampling.logit_bias.empty()) return refused("logit_bias");
  if (!sampling.stop_token_ids.empty()) return refused("stop_token_ids");
  return {};
}

Result<void> check_tokens(const openai::Sampling& sampling, std::uint32_t vocabulary) {
  const auto check = [&](TokenId token, std::string_view field) -> Result<void> {
    if (token.value() < vocabulary) return {};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: token {} is outside the vocabulary of {}", field, token.value(), vocabulary));
  };
  for (const auto& [token, bias] : sampling.logit_bias) KVIST_TRY_VOID(check(token, "logit_bias"));
  for (const TokenId token : sampling.stop_token_ids) KVIST_TRY_VOID(check(token, "stop_token_ids"));
  return {};
}

}  // namespace

Result<void> check_options(const openai::GenerationOptions& options, std::size_t prompts,
                           const spec::WorkerSpec& worker, std::uint32_t vocabulary) {
  if (prompts * options.choices > openai::kMaxPrompts) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("n: {} answers to {} prompts are more than {} in one request",
                                                         options.choices, prompts, openai::kMaxPrompts));
  }
  if (!worker.cpu) return check_timed(options.sampling);
  return check_tokens(options.sampling, vocabulary);
}

Result<void> check_resumption(const openai::GenerationOptions& options, bool one_text, std::uint32_t vocabulary) {
  if (!one_text) {
    return fail(ErrorCode::kUnsupported,
                "kvist_resume: only an answer of one choice that calls no tools can be resumed; leave it out");
  }
  for (const TokenId token : options.resumption->tokens) {
    if (token.value() < vocabulary) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("kvist_resume.token_ids: token {} is outside the vocabulary "
                                                         "of {}",
                                                         token.value(), vocabulary));
  }
  return {};
}

Result<void> check_template(const openai::ChatPrompt& chat, const text::ChatTemplate& chat_template,
                            const std::string& tokenizer) {
  const auto refused = [&](std::string_view field) {
    return fail(
        ErrorCode::kUnsupported,
        tokenizer.empty()
            ? fmt::format("{}: not supported by a worker of bytes, which has no model's template (tokenizer)", field)
            : fmt::format("{}: the template of this model has no place for it", field));
  };
  if (!chat.tools.empty() && !chat_template.names("tools")) return refused("tools");
  if (!chat.documents.empty() && !chat_template.names("documents")) return refused("documents");
  if (!chat.template_arguments.empty() && tokenizer.empty()) return refused("chat_template_kwargs");
  if (chat_template.names("tool_calls")) return {};
  for (std::size_t i = 0; i < chat.messages.size(); ++i)
    if (!chat.messages[i].tool_calls.empty()) return refused(fmt::format("messages[{}].tool_calls", i));
  return {};
}

std::shared_ptr<const engine::SamplingOptions> sampling_of(const openai::Sampling& sampling) {
  auto options = std::make_shared<engine::SamplingOptions>();
  options->temperature = static_cast<float>(sampling.temperature);
  options->top_k = sampling.top_k;
  options->top_p = static_cast<float>(sampling.top_p);
  options->min_p = static_cast<float>(sampling.min_p);
  options->presence_penalty = static_cast<float>(sampling.presence_penalty);
  options->frequency_penalty = static_cast<float>(sampling.frequency_penalty);
  options->repetition_penalty = static_cast<float>(sampling.repetition_penalty);
  for (const auto& [token, bias] : sampling.logit_bias)
    options->logit_bias.push_back({.token = token, .bias = static_cast<float>(bias)});
  options->stop_tokens = sampling.stop_token_ids;
  options->min_tokens = sampling.min_tokens;
  options->logprobs = sampling.logprobs;
  return options;
}

}  // namespace kvist::worker
