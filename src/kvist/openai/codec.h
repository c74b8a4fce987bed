// JSON of the OpenAI API, read and written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/openai/types.h"

namespace kvist::openai {

/// What a request is read for.
enum class ReadFor {
  /// To answer it. A field that would change the output and that no engine here honours is refused: kUnsupported, by
  /// name.
  kAnswer,
  /// To choose who answers it. Only what a choice needs must be right; tools, images, sampling and fields to come are
  /// the worker's business. Parts of a message that are not text are passed over.
  kRouting,
};

/// Typed requests from a body. kInvalidArgument names the field, what it was and what would be right. Unknown fields
/// are ignored.
[[nodiscard]] Result<ChatRequest> parse_chat_request(std::string_view body, ReadFor purpose = ReadFor::kAnswer);
[[nodiscard]] Result<CompletionRequest> parse_completion_request(std::string_view body,
                                                                 ReadFor purpose = ReadFor::kAnswer);

/// Who answers: fields that every chunk of one answer repeats.
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
  std::vector<text::ToolCall> tool_calls = {};  ///< of a chat; without text beside them, content is null
  std::vector<TokenLogprobs> logprobs = {};     ///< of its tokens; empty where nobody asked
  /// Where the client asked for them (return_token_ids): its tokens and its prompt's.
  std::optional<std::vector<TokenId>> tokens = {};
  std::optional<std::vector<TokenId>> prompt_tokens = {};
};
[[nodiscard]] std::string whole_answer(const AnswerHead& head, const std::vector<WholeChoice>& choices,
                                       const Usage& usage);
/// `max_model_len` 0: not known, and left out.
[[nodiscard]] std::string model_list(const std::vector<std::string>& models, std::int64_t created,
                                     std::uint32_t max_model_len);

/// One entry of a server's model list.
struct ModelCard {
  std::string id;
  std::string json;  ///< the entry as the server wrote it, without white space

  bool operator==(const ModelCard&) const = default;
};
/// Entries that one list may have.
inline constexpr std::size_t kMaxModels = 1024;
/// The entries of a /v1/models answer.
[[nodiscard]] Result<std::vector<ModelCard>> parse_model_list(std::string_view body);
/// The list with these entries.
[[nodiscard]] std::string model_list(const std::vector<ModelCard>& models);

/// What a client sends for one turn of a conversation.
struct ClientChatRequest {
  std::string model;
  std::vector<text::ChatMessage> messages;
  std::uint32_t max_tokens = 0;
  std::uint64_t seed = 0;
  bool ignore_eos = false;  ///< of vLLM and its kin: sent only where true
  bool stream = true;
};
[[nodiscard]] std::string chat_request_body(const ClientChatRequest& request);

/// Reads one stream chunk or one whole answer.
[[nodiscard]] Result<ChunkView> parse_chunk(std::string_view json);

/// The body with stream_options.include_usage made true and every other byte unchanged. The same body if it asks
/// already, and where it asks for usage in every chunk but not at the end (continuous_usage_stats alone): with both,
/// every chunk of the answer would be another. Requires a body that parse_*_request accepts.
[[nodiscard]] Result<std::string> with_usage_requested(std::string_view body);

}  // namespace kvist::openai
