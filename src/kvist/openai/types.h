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

/// Sampling parameters, with the names and defaults of OpenAI's API and of vLLM's extensions.
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
  /// Return log probabilities of the answer's tokens, with so many of the likeliest tokens for each; nothing: none.
  std::optional<std::uint32_t> logprobs = {};
  /// prompt_logprobs: the same of the prompt's tokens (vLLM).
  std::optional<std::uint32_t> prompt_logprobs = {};

  bool operator==(const Sampling&) const = default;
};

/// How a prompt's text becomes tokens. These are vLLM's fields.
struct PromptOptions {
  /// add_special_tokens: whether the tokenizer's frame (usually a begin-of-text token) is put around the prompt. By
  /// default it is put around completions but not around chats.
  std::optional<bool> add_special_tokens = {};
  /// truncate_prompt_tokens: the number of tokens that are kept; nothing: all.
  std::optional<std::uint32_t> truncate_to = {};
  bool truncate_to_context = false;  ///< it was -1: as many as fit the model's context
  text::Truncation::Side truncation_side = text::Truncation::Side::kDefault;
  bool leaves_room_for_answer = true;  ///< with -1: one token of the context is left for the answer

  bool operator==(const PromptOptions&) const = default;
};

/// How a prompt is truncated for a model with a context of `max_model_len` tokens; 0: unknown.
[[nodiscard]] std::optional<text::Truncation> truncation_of(const PromptOptions& options, std::uint32_t max_model_len);

/// An answer that another worker began (kvist_resume): it goes on behind these tokens.
struct Resumption {
  std::vector<TokenId> tokens;  ///< of the answer, at least one; the client has their text
  std::int64_t created = 0;     ///< of the answer's chunks

  bool operator==(const Resumption&) const = default;
};
/// The most tokens of a resumed answer.
inline constexpr std::size_t kMaxResumedTokens = 1UL << 20;

/// Fields that chat and completions share. Absent fields have the API's defaults.
struct GenerationOptions {
  std::string model;  ///< empty, if read for routing: the served model
  PromptOptions prompt = {};
  bool stream = false;
  bool include_usage = false;     ///< stream_options.include_usage
  bool continuous_usage = false;  ///< stream_options.continuous_usage_stats; no effect without include_usage
  /// max_completion_tokens takes precedence over max_tokens. 0: only with echo. A completion always has it: 16 by
  /// default.
  std::optional<std::uint32_t> max_tokens;
  std::optional<std::uint64_t> seed;
  bool ignore_eos = false;
  std::string cache_salt;
  std::uint32_t choices = 1;      ///< n: answers to each prompt
  std::uint32_t best_of = 1;      ///< answers that are generated for each prompt, of which the `choices` best are given
  bool echo = false;              ///< a completion begins with its prompt
  std::vector<std::string> stop;  ///< texts that end an answer
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;  ///< false: the answer's text has the spelling of special tokens
  std::int32_t priority = 0;        ///< requests with a lower one are taken from the queue first (vLLM)
  /// Only read for routing: the body has a priority that is not one whole number, which another reader may take for
  /// any.
  bool priority_is_odd = false;
  bool return_token_ids = false;  ///< the answer contains the tokens of prompt and choices (vLLM)
  Sampling sampling;
  std::optional<Resumption> resumption = {};  ///< an extension of kvist; only with `stream`
  /// prompt_cache_key, otherwise user, by which requests of one client belong together. Only read for routing; empty if
  /// there is neither.
  std::string session;
  /// Only read for routing: the engine computes the whole prompt, whatever is cached, as for the prompt's log
  /// probabilities.
  bool computes_whole_prompt = false;
};

/// How many of the likeliest tokens beside each token of the prompt are to be computed: those of prompt_logprobs, and
/// those of an echoed prompt, which has as many as its answer. Nothing: no log probabilities of the prompt.
[[nodiscard]] std::optional<std::uint32_t> wanted_prompt_logprobs(const GenerationOptions& options);

/// The parts of a chat's prompt. If read for routing, tools and template arguments are unchecked.
struct ChatPrompt {
  std::vector<text::ChatMessage> messages = {};
  std::string tools = {};               ///< JSON array; empty if there are none
  std::string documents = {};           ///< JSON array; empty if there are none
  std::string reasoning_effort = {};    ///< "low", "none", ...; empty: not given
  std::string template_arguments = {};  ///< JSON object of chat_template_kwargs; empty if there is none
  bool add_generation_prompt = true;    ///< false by default if continue_final_message is true
  bool continue_final_message = false;  ///< never with add_generation_prompt
};

/// The input of a chat template. Requires: `chat` outlives it.
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

/// The most prompts of a completion request, and answers to each prompt (OpenAI's limit).
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

/// Of one token of an answer, or of an echoed prompt.
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> likeliest = {};
  bool is_first = false;  ///< the first token of a prompt: nothing precedes it, so it has no log probability

  bool operator==(const TokenLogprobs&) const = default;
};

/// A token at one position of a prompt, and its place among all tokens there, the likeliest being the first.
struct RankedLogprob {
  TokenId id;
  TokenLogprob token;
  std::uint32_t rank = 1;

  bool operator==(const RankedLogprob&) const = default;
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
  /// The engine generated something: content, reasoning, a refusal or a part of a tool call.
  bool generates = false;
  bool has_role = false;
  std::optional<std::string> finish_reason;
  std::optional<Usage> usage;
  bool usage_only = false;           ///< no choices: the chunk that include_usage adds
  std::optional<std::string> error;  ///< an error frame: its message
  int error_status = 0;              ///< its `code`, where that is a number
  std::string system_fingerprint;
};

}  // namespace kvist::openai
