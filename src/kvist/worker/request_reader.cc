#include "kvist/worker/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "kvist/net/time_of_day.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/errors.h"
#include "kvist/openai/resumption.h"
#include "kvist/openai/tokenize.h"
#include "kvist/text/prompt_encoding.h"
#include "kvist/text/stream_decoder.h"
#include "kvist/tokenizer/utf8_repair.h"
#include "kvist/worker/request_options.h"

namespace kvist::worker {

Result<std::vector<TokenId>> RequestReader::tokens_of(const openai::ChatPrompt& chat,
                                                      const openai::PromptOptions& options) const {
  KVIST_TRY_VOID(check_template(chat, *chat_template_, spec_->tokenizer));
  KVIST_TRY(std::vector<TokenId> tokens,
            chat_template_->tokens(openai::chat_input(chat, net::local_time()), *tokenizer_,
                                   {.specials = spec_->special_tokens_in_messages,
                                    .framed = options.add_special_tokens.value_or(false),
                                    .truncation = openai::truncation_of(options, spec_->max_model_len)}));
  if (tokens.empty()) return fail(ErrorCode::kInvalidArgument, "messages: the prompt is empty");
  return tokens;
}

Result<std::vector<TokenId>> RequestReader::tokens_of(const openai::Prompt& prompt, std::string_view path,
                                                      const openai::PromptOptions& options) const {
  const std::optional<text::Truncation> truncation = openai::truncation_of(options, spec_->max_model_len);
  std::vector<TokenId> tokens;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    tokens = text::encode_prompt(*tokenizer_, {.text = *text, .from_messages = {}},
                                 {.framed = options.add_special_tokens.value_or(true), .truncation = truncation});
  } else {
    tokens = std::get<std::vector<TokenId>>(prompt);
    text::truncate(tokens, truncation);
  }
  if (tokens.empty()) return fail(ErrorCode::kInvalidArgument, fmt::format("{}: is empty", path));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].value() < vocabulary_) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}[{}]: token {} is outside the vocabulary of {}", path, i,
                                                         tokens[i].value(), vocabulary_));
  }
  return tokens;
}

// As the client wrote it, unless that is not what the model reads.
std::string RequestReader::echo_of(const openai::Prompt& prompt, const openai::PromptOptions& options,
                                   std::span<const TokenId> tokens) const {
  const auto* const text = std::get_if<std::string>(&prompt);
  if (text != nullptr && !openai::truncation_of(options, spec_->max_model_len)) return *text;
  return text::decode_text(*tokenizer_, tokens);
}

Result<void> RequestReader::check_model(std::string_view model) const {
  if (model == spec_->model) return {};
  return fail(ErrorCode::kNotFound,
              fmt::format("model: \"{}\" is not served here; this worker serves \"{}\"", model, spec_->model));
}

Result<void> RequestReader::check_lengths(const GenerationRequest& request) const {
  const std::size_t resumed = request.answer.resumed.size();
  for (const std::vector<TokenId>& prompt : request.prompts) {
    if (prompt.size() + resumed < spec_->max_model_len) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}{} tokens, of which the answer needs at least one; the prompt has {}",
                            openai::kContextLengthMessage, spec_->max_model_len, prompt.size() + resumed));
  }
  return {};
}

Result<GenerationRequest> RequestReader::checked(GenerationRequest request) const {
  openai::GenerationOptions& options = request.options;
  AnswerOptions& answer = request.answer;
  KVIST_TRY_VOID(check_options(options, request.prompts.size(), *spec_, vocabulary_));
  KVIST_TRY_VOID(check_prompt_logprobs(options, request.prompts));
  KVIST_TRY_VOID(check_repeated_prompts(options, answer.echoes, request.prompts));
  if (options.resumption) {
    const bool one_text = request.prompts.size() * options.best_of == 1 && !answer.tool_calls;
    KVIST_TRY_VOID(check_resumption(options, one_text, vocabulary_));
    answer.resumed = options.resumption->tokens;
  }
  KVIST_TRY_VOID(check_lengths(request));
  KVIST_TRY_VOID(bound_answer_logprobs(options, request.prompts, spec_->max_model_len));
  if (options.return_token_ids || openai::wanted_prompt_logprobs(options)) answer.prompts = request.prompts;
  // Special tokens that are left out are no text.
  for (const std::vector<TokenId>& prompt : request.prompts)
    answer.follows_text.push_back(!options.skip_special_tokens || std::ranges::any_of(prompt, [&](TokenId token) {
      return !tokenizer_->is_special(token);
    }));
  answer.stream = options.stream;
  answer.include_usage = options.include_usage;
  answer.continuous_usage = options.include_usage && options.continuous_usage;
  answer.answers_per_prompt = options.best_of;
  answer.best_per_prompt = options.choices;
  answer.drops_logprobs = !options.sampling.logprobs;
  answer.returns_tokens = options.return_token_ids;
  answer.returns_prompt_logprobs = options.sampling.prompt_logprobs.has_value();
  answer.echoes_logprobs = options.echo && options.sampling.logprobs;
  answer.echoes_only = options.max_tokens == 0U;
  answer.stop = options.stop;
  answer.include_stop = options.include_stop_str_in_output;
  answer.min_tokens = options.sampling.min_tokens;
  answer.skip_special_tokens = options.skip_special_tokens;
  return request;
}

Result<GenerationRequest> RequestReader::chat(std::string_view body) const {
  KVIST_TRY(openai::ChatRequest chat, openai::parse_chat_request(body));
  KVIST_TRY_VOID(check_model(chat.options.model));
  GenerationRequest request;
  KVIST_TRY(std::vector<TokenId> prompt, tokens_of(chat, chat.options.prompt));
  const auto unknown = std::ranges::find_if(prompt, [&](TokenId token) { return token.value() >= vocabulary_; });
  if (unknown != prompt.end()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("messages: token {}, \"{}\", is outside the vocabulary of {}", unknown->value(),
                            tokenizer_->spelling(*unknown), vocabulary_));
  }
  request.prompts.push_back(std::move(prompt));
  if (chat.may_call_tools) request.answer.tool_calls = spec_->tool_parser;
  request.answer.several_calls = chat.several_calls;
  request.options = std::move(chat.options);
  return checked(std::move(request));
}

Result<GenerationRequest> RequestReader::completion(std::string_view body) const {
  KVIST_TRY(openai::CompletionRequest completion, openai::parse_completion_request(body));
  KVIST_TRY_VOID(check_model(completion.options.model));
  GenerationRequest request;
  request.answer.head.chat = false;
  for (std::size_t i = 0; i < completion.prompts.size(); ++i) {
    const openai::Prompt& prompt = completion.prompts[i];
    const std::string path = completion.prompts.size() == 1 ? "prompt" : fmt::format("prompt[{}]", i);
    KVIST_TRY(std::vector<TokenId> tokens, tokens_of(prompt, path, completion.options.prompt));
    if (completion.options.echo) request.answer.echoes.push_back(echo_of(prompt, completion.options.prompt, tokens));
    request.prompts.push_back(std::move(tokens));
  }
  request.options = std::move(completion.options);
  return checked(std::move(request));
}

Result<std::string> RequestReader::tokenize(std::string_view body) const {
  KVIST_TRY(const openai::TokenizeRequest request, openai::parse_tokenize_request(body));
  if (!request.model.empty()) KVIST_TRY_VOID(check_model(request.model));
  std::vector<TokenId> tokens;
  if (const auto* text = std::get_if<std::string>(&request.input)) {
    tokens = text::encode_prompt(*tokenizer_, {.text = *text, .from_messages = {}},
                                 {.framed = request.add_special_tokens.value_or(true)});
  } else {
    KVIST_TRY(tokens, tokens_of(std::get<openai::ChatPrompt>(request.input),
                                {.add_special_tokens = request.add_special_tokens}));
  }
  if (const std::size_t most = std::max<std::size_t>(kMostListedTokens, spec_->max_model_len); tokens.size() > most)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the prompt has {} tokens, at most {} are listed", tokens.size(), most));
  std::vector<std::string> spellings;
  if (request.return_token_strs)
    for (const TokenId token : tokens) spellings.emplace_back(tokenizer_->spelling(token));
  return openai::tokenize_answer(tokens, spec_->max_model_len, spellings);
}

Result<std::string> RequestReader::detokenize(std::string_view body) const {
  KVIST_TRY(const openai::DetokenizeRequest request, openai::parse_detokenize_request(body));
  if (!request.model.empty()) KVIST_TRY_VOID(check_model(request.model));
  // As vLLM does: special tokens by their spelling, and the first text without the space that some tokenizers add.
  std::string text;
  bool begun = false;
  for (const TokenId token : request.tokens) {
    if (tokenizer_->is_special(token)) {
      text += tokenizer_->spelling(token);
      begun = true;
    } else if (begun) {
      tokenizer_->decode(token, text);
    } else {
      begun = tokenizer_->decode_first(token, text);
    }
    if (text.size() > kMostTextBytes)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("tokens: their text has more than {} bytes", kMostTextBytes));
  }
  // The JSON writer would replace every byte by itself.
  std::string repaired;
  tokenizer::append_repaired_utf8(text, repaired);
  return openai::detokenize_answer(repaired);
}

}  // namespace kvist::worker
