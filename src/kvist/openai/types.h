// The OpenAI API as typed values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/text/chat.h"

namespace kvist::openai {

/// Fields that chat and completions share. Absent fields have the API's defaults.
struct GenerationOptions {
  std::string model;
  bool stream = false;
  bool include_usage = false;               ///< stream_options.include_usage
  std::optional<std::uint32_t> max_tokens;  ///< max_completion_tokens wins over max_tokens
  std::optional<std::uint64_t> seed;
  bool ignore_eos = false;
  std::string cache_salt;
  /// prompt_cache_key, else user: what the client says belongs together. Read for routing only; empty where there is
  /// neither.
  std::string session;
};

struct ChatRequest {
  GenerationOptions options;
  std::vector<text::ChatMessage> messages;
};

/// One prompt as text or as tokens.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

/// Prompts that one completion request may carry.
inline constexpr std::size_t kMaxPrompts = 256;

struct CompletionRequest {
  GenerationOptions options;
  std::vector<Prompt> prompts;  ///< at least one
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
};

}  // namespace kvist::openai
