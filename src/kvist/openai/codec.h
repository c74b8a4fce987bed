// Reads and writes the JSON of the OpenAI API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/openai/logprobs_text.h"
#include "kvist/openai/types.h"

namespace kvist::openai {

/// The purpose for which a request is read.
enum class ReadFor {
  /// To answer it. A field that would change the output, but that no engine here honours, is refused by name
  /// (kUnsupported).
  kAnswer,
  /// To route it. Only fields that routing needs have to be valid; tools, images, sampling and unknown fields are left
  /// to the worker. Parts of a message that are not text are ignored.
  kRouting,
};

/// Reads typed requests from a body. Unknown fields are ignored. Errors: kInvalidArgument with the field, its value and
/// what would be right.
[[nodiscard]] Result<ChatRequest> parse_chat_request(std::string_view body, ReadFor purpose = ReadFor::kAnswer);
[[nodiscard]] Result<CompletionRequest> parse_completion_request(std::string_view body,
                                                                 ReadFor purpose = ReadFor::kAnswer);

/// The fields that every chunk of an answer repeats.
struct AnswerHead {
  std::string id;  ///< "chatcmpl-..." or "cmpl-..."
  std::string model;
  std::int64_t created = 0;  ///< Unix seconds
  bool chat = true;
};

/// Stream chunks and whole answers as JSON text. `index` is the choice's.
[[nodiscard]] std::string role_chunk(const AnswerHead& head, std::uint32_t index);
[[nodiscard]] std::string text_chunk(const AnswerHead& head, std::uint32_t index, std::string_view text);
[[nodiscard]] std::string finish_chunk(const AnswerHead& head, std::uint32_t index, std::string_view finish_reason);
[[nodiscard]] std::string usage_chunk(const AnswerHead& head, const Usage& usage);

struct WholeChoice {
  std::string text;
  std::string finish_reason;
  std::vector<text::ToolCall> tool_calls = {};  ///< calls of a chat; if there is no text with them, content is null
  LogprobsText logprobs = {};                   ///< of its tokens
  /// For each token of the prompt itself, then the likeliest; empty for the first token. Nothing: not requested.
  std::optional<std::vector<std::vector<RankedLogprob>>> prompt_logprobs = {};
  /// The tokens of the choice and of its prompt, if the client requested them (return_token_ids).
  std::optional<std::vector<TokenId>> tokens = {};
  std::optional<std::vector<TokenId>> prompt_tokens = {};
  std::string stop_reason = {};  ///< the stop string that ended it (vLLM's field); empty: none
};
[[nodiscard]] std::string whole_answer(const AnswerHead& head, const std::vector<WholeChoice>& choices,
                                       const Usage& usage);
/// `max_model_len` is left out if it is 0, unknown.
[[nodiscard]] std::string model_list(const std::vector<std::string>& models, std::int64_t created,
                                     std::uint32_t max_model_len);

/// One entry of a server's model list.
struct ModelCard {
  std::string id;
  std::string json;                 ///< the entry as the server wrote it, without white space
  std::uint32_t max_model_len = 0;  ///< context length in tokens; 0: not reported
  std::string parent = {};          ///< the model that this one is an adapter (LoRA) of; empty: it is none
  std::string root = {};            ///< where its weights are from: served names of one model share it; may be empty

  bool operator==(const ModelCard&) const = default;
};
/// The most entries of a list.
inline constexpr std::size_t kMaxModels = 1024;
/// The entries of a /v1/models answer.
[[nodiscard]] Result<std::vector<ModelCard>> parse_model_list(std::string_view body);
/// Writes a list with these entries.
[[nodiscard]] std::string model_list(const std::vector<ModelCard>& models);

/// A client's request for one turn of a conversation.
struct ClientChatRequest {
  std::string model;
  std::vector<text::ChatMessage> messages;
  std::uint32_t max_tokens = 0;
  std::uint64_t seed = 0;
  bool ignore_eos = false;  ///< an extension of vLLM, only sent if true
  bool stream = true;
};
[[nodiscard]] std::string chat_request_body(const ClientChatRequest& request);

/// Reads one stream chunk or one whole answer.
[[nodiscard]] Result<ChunkView> parse_chunk(std::string_view json);

/// The body with stream_options.include_usage set to true and every other byte unchanged. The body is returned
/// unchanged if it requests usage already, or if it has only continuous_usage_stats, because then every chunk of the
/// answer would change. Requires: parse_*_request accepts the body.
[[nodiscard]] Result<std::string> with_usage_requested(std::string_view body);

}  // namespace kvist::openai
