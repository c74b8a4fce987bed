#include "kvist/worker/request_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kvist/base/json_writer.h"

namespace kvist::worker {
namespace {

// The timed engine makes up its answers from the seed, so options that change the choice of tokens have no effect.
// Temperature and the other options that every client sends are accepted, because load tests send them. The length of
// an answer is honoured, and log probabilities are made up as the tokens are.
Result<void> check_timed(const openai::GenerationOptions& options) {
  const openai::Sampling& sampling = options.sampling;
  const auto refused = [](std::string_view field) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: not supported by the timed engine, which makes up its answers; leave it out", field));
  };
  if (!sampling.logit_bias.empty()) return refused("logit_bias");
  if (!sampling.stop_token_ids.empty()) return refused("stop_token_ids");
  if (sampling.prompt_logprobs) return refused("prompt_logprobs");
  if (!openai::wanted_prompt_logprobs(options)) return {};
  return fail(
      ErrorCode::kUnsupported,
      "echo: log probabilities of the prompt are not supported by the timed engine, which reads none; leave out "
      "\"echo\" or \"logprobs\"");
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

// Escaped, a text may have six times its bytes. It is written a piece at a time, and only to be counted.
std::uint64_t json_bytes_of(std::string_view text) {
  constexpr std::size_t kPieceBytes = 64UL << 10;
  std::string json;
  std::uint64_t bytes = 0;
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kPieceBytes))) {
    json.clear();
    append_json_string(json, text.substr(0, kPieceBytes));
    bytes += json.size();
  }
  return bytes;
}

std::uint64_t json_bytes_of(std::span<const TokenId> tokens) {
  std::uint64_t bytes = 0;
  for (const TokenId token : tokens) bytes += fmt::formatted_size("{},", token.value());
  return bytes;
}

}  // namespace

Result<void> check_options(const openai::GenerationOptions& options, std::size_t prompts,
                           const spec::WorkerSpec& worker, std::uint32_t vocabulary) {
  if (prompts * options.best_of > openai::kMaxPrompts) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {} answers to {} prompts are more than {} in one request",
                                                         options.best_of > options.choices ? "best_of" : "n",
                                                         options.best_of, prompts, openai::kMaxPrompts));
  }
  // All of them wait before the first is computed, or none is taken. So these would find the queue full for ever.
  if (prompts * options.best_of > worker.max_waiting) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} answers in one request, of which at most {} can wait at this worker (max_waiting); "
                            "send several requests",
                            options.best_of == 1                ? "prompt"
                            : options.best_of > options.choices ? "best_of"
                                                                : "n",
                            prompts * options.best_of, worker.max_waiting));
  }
  if (!worker.cpu) return check_timed(options);
  return check_tokens(options.sampling, vocabulary);
}

Result<void> check_prompt_logprobs(const openai::GenerationOptions& options,
                                   std::span<const std::vector<TokenId>> prompts) {
  const std::optional<std::uint32_t> likeliest = openai::wanted_prompt_logprobs(options);
  if (!likeliest) return {};
  std::uint64_t count = 0;
  for (const std::vector<TokenId>& prompt : prompts)
    count += std::uint64_t{prompt.size()} * (*likeliest + 1) * options.best_of;
  const std::uint64_t most = options.stream ? kMaxStreamedPromptLogprobs : kMaxPromptLogprobs;
  if (count <= most) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: {} log probabilities of the prompt, at most {} are given {}; send fewer or shorter prompts, "
                  "or ask for fewer tokens beside each",
                  options.sampling.prompt_logprobs ? "prompt_logprobs" : "logprobs", count, most,
                  options.stream ? "in a stream" : "in an answer"));
}

Result<void> bound_answer_logprobs(openai::GenerationOptions& options, std::span<const std::vector<TokenId>> prompts,
                                   std::uint32_t max_model_len) {
  if (options.stream || !options.sampling.logprobs || options.max_tokens == 0U) return {};
  const std::uint64_t per_token = std::uint64_t{*options.sampling.logprobs} + 1;
  std::uint64_t tokens = 0;
  for (const std::vector<TokenId>& prompt : prompts) {
    const std::uint64_t room = max_model_len - prompt.size();
    tokens += options.best_of * std::min<std::uint64_t>(options.max_tokens.value_or(room), room);
  }
  if (tokens * per_token <= kMaxAnswerLogprobs) return {};
  const std::uint64_t most = kMaxAnswerLogprobs / (prompts.size() * options.best_of * per_token);
  if (!options.max_tokens) {
    options.max_tokens = static_cast<std::uint32_t>(most);
    return {};
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("max_tokens: {} log probabilities in an answer that is not streamed, at most {} are given; "
                          "with so many answers and tokens beside each, max_tokens may be {}: ask for fewer, or stream",
                          tokens * per_token, kMaxAnswerLogprobs, most));
}

Result<void> check_repeated_prompts(const openai::GenerationOptions& options, std::span<const std::string> echoes,
                                    std::span<const std::vector<TokenId>> prompts) {
  const std::uint64_t most = options.stream ? kMaxStreamedRepeatedBytes : kMaxRepeatedBytes;
  std::uint64_t once = 0;
  for (const std::string& text : echoes) once += json_bytes_of(text);
  if (options.return_token_ids)
    for (const std::vector<TokenId>& tokens : prompts) once += json_bytes_of(tokens);
  if (once * options.best_of <= most) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: prompts of {} bytes in each of {} answers, at most {} bytes are given {}; ask for fewer "
                  "answers, send fewer or shorter prompts{}",
                  echoes.empty() ? "return_token_ids" : "echo", once, options.best_of, most,
                  options.stream ? "in a stream" : "in all", options.stream ? ", or leave out \"stream\"" : ""));
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

std::shared_ptr<const engine::SamplingOptions> sampling_of(const openai::GenerationOptions& request) {
  const openai::Sampling& sampling = request.sampling;
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
  if (request.best_of > request.choices && !options->logprobs) options->logprobs = 0;  // to find the best
  // The client of a resumed answer has those of the prompt.
  if (!request.resumption) options->prompt_logprobs = openai::wanted_prompt_logprobs(request);
  return options;
}

}  // namespace kvist::worker
