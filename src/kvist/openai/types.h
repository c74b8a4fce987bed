// The OpenAI API as typed values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/text/chat.h"
#include "kvist/text/prompt_encoding.h"

namespace kvist::openai {

/// How tokens are to be chosen, with the API's names and defaults; fields of vLLM's beside those of OpenAI's.
struct Sampling {
  double temperature = 1;
  double top_p = 1;
  double min_p = 0;
  std::uint32_t top_k = 0;  ///< 0: all
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double repetition_penalty = 1;
  std::vector<std::pair<TokenId, double>> logit_bias = {};
  std::vector<TokenId> stop_token_ids = {};
  std::uint32_t min_tokens = 0;
  /// Log probabilities of the answer's tokens, with so many of the likeliest beside each; nothing: none.
  std::optional<std::uint32_t> logprobs = {};

  bool operator==(const Sampling&) const = default;
};

/// What a request says of the way from its prompt's text to tokens; vLLM's fields.
struct PromptOptions {
  /// add_special_tokens: the tokenizer's own frame (a begin-of-text token, as a rule) around the prompt. Absent: as the
  /// server does it, which is around completions and not around chats.
  std::optional<bool> add_special_tokens = {};
  /// truncate_prompt_tokens: so many are kept; nothing: all.
  std::optional<std::uint32_t> truncate_to = {};
  bool truncate_to_context = false;  ///< it was -1: as many as the model's context holds
  text::Truncation::Side truncation_side = text::Truncation::Side::kDefault;
  bool leaves_room_for_answer = true;  ///< of -1: an answer is wanted, which needs one token of the context

  bool operator==(const PromptOptions&) const = default;
};

/// How a prompt is cut, for a model whose context holds `max_model_len` tokens; 0: not known.
[[nodiscard]] std::optional<text::Truncation> truncation_of(const PromptOptions& options, std::uint32_t max_model_len);

/// Fields that chat and completions share. Absent fields have the API's defaults.
struct GenerationOptions {
  std::string model;  ///< empty, read for routing: whatever is served
  PromptOptions prompt = {};
  bool stream = false;
  bool include_usage = false;               ///< stream_options.include_usage
  bool continuous_usage = false;            ///< stream_options.continuous_usage_stats; means nothing without the above
  std::optional<std::uint32_t> max_tokens;  ///< max_completion_tokens wins over max_tokens
  std::optional<std::uint64_t> seed;
  bool ignore_eos = false;
  std::string cache_salt;
  std::uint32_t choices = 1;      ///< n: answers to each prompt
  std::vector<std::string> stop;  ///< texts that end an answer
  bool include_stop_str_in_output = false;
  bool return_token_ids = false;  ///< the answer holds the tokens of prompt and choices (vLLM)
  Sampling sampling;
  /// prompt_cache_key, else user: what the client says belongs together. Read for routing only; empty where there is
  /// neither.
  std::string session;
  /// Read for routing only: the engine computes the whole prompt, whatever it caches of it, as for the prompt's own log
  /// probabilities.
  bool computes_whole_prompt = false;
};

/// What a chat's prompt is made of. Read for routing, tools and template arguments are whatever the client sent.
struct ChatPrompt {
  std::vector<text::ChatMessage> messages = {};
  std::string tools = {};               ///< JSON array; empty where there are none
  std::string documents = {};           ///< JSON array; empty where there are none
  std::string reasoning_effort = {};    ///< "low", "none", ...; empty: not said
  std::string template_arguments = {};  ///< JSON object of chat_template_kwargs; empty where there is none
  bool add_generation_prompt = true;    ///< false by default where continue_final_message is true
  bool continue_final_message = false;  ///< never with add_generation_prompt
};

/// The same for a template. `chat` must outlive it.
[[nodiscard]] inline text::ChatInput chat_input(const ChatPrompt& chat, std::chrono::local_seconds now) {
  return {.messages = chat.messages,
          .tools = chat.tools,
          .documents = chat.documents,
          .reasoning_effort = chat.reasoning_effort,
          .template_arguments = chat.template_arguments,
          .add_generation_prompt = chat.add_generation_prompt,
          .continue_final_message = chat.continue_final_message,
          .now = now};
}

struct ChatRequest : ChatPrompt {
  GenerationOptions options = {};
  bool may_call_tools = false;  ///< there are tools, and tool_choice is not "none"
  bool several_calls = true;    ///< parallel_tool_calls: more than one call in an answer
};

/// One prompt as text or as tokens.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

/// Prompts that one completion request may carry, and answers to each prompt (OpenAI's limit).
inline constexpr std::size_t kMaxPrompts = 256;
inline constexpr std::uint32_t kMaxChoices = 128;
/// Stop strings of one request, and bytes of each; OpenAI allows four.
inline constexpr std::size_t kMaxStopStrings = 16;
inline constexpr std::size_t kMaxStopBytes = 1024;
/// Of the likeliest tokens beside each token of an answer.
inline constexpr std::uint32_t kMaxLogprobs = 20;
inline constexpr std::size_t kMaxLogitBiases = 1024;
/// Tools of one request; OpenAI's limit.
inline constexpr std::size_t kMaxTools = 128;

struct CompletionRequest {
  GenerationOptions options;
  std::vector<Prompt> prompts;  ///< at least one
};

/// A token as text and its log probability. The bytes may be a part of a character.
struct TokenLogprob {
  std::string token;
  double logprob = 0;

  bool operator==(const TokenLogprob&) const = default;
};

/// Of one token of an answer.
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> likeliest = {};

  bool operator==(const TokenLogprobs&) const = default;
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;     ///< prompt_tokens_details.cached_tokens
  bool reports_cached_tokens = false;  ///< it was there: many servers leave it out unless told otherwise
};

/// What one stream chunk or one whole answer says, as a client reads it.
struct ChunkView {
  std::string content;  ///< text of the first choice's delta (or text, or message content)
  bool has_role = false;
  std::optional<std::string> finish_reason;
  std::optional<Usage> usage;
  bool usage_only = false;           ///< no choices: the chunk that include_usage adds
  std::optional<std::string> error;  ///< an error frame: its message
  int error_status = 0;              ///< its `code`, where that is a number
  std::string system_fingerprint;
};

}  // namespace kvist::openai
