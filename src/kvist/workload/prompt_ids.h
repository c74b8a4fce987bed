// Prompts as token ids, for servers whose tokenizer is not known.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/text/chat.h"

namespace kvist::workload {

/// The ids from which prompts are made: ordinary ones of the target's vocabulary, without special tokens.
struct TokenIdRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;  ///< at least `first`
};
/// "1000-30000" as a range of two ids or more, each below 2^31. Errors say what would be right.
[[nodiscard]] Result<TokenIdRange> parse_token_ids(const std::string& text);

/// Which tokens a prompt has beside its messages.
enum class PromptFrame : std::uint8_t {
  kNone,          ///< none: the prompt is as long as its messages
  kChatTemplate,  ///< those of text::SimpleChatTemplate, for which the messages of a trace leave room
};

/// The tokens of a text, by the target's own tokenizer.
using Encode = std::function<std::vector<TokenId>(std::string_view text)>;

/// With a tokenizer, its tokens of the messages, one behind the other. Otherwise one id per byte of the messages, as
/// the workload counts tokens everywhere. An id follows from its place in the prompt and its byte alone, so prompts
/// with a common beginning have common ids there, and lengths hold whatever tokenizer the server has. Immutable.
/// Threads: any.
class PromptIds {
 public:
  PromptIds(const TokenIdRange& range, PromptFrame frame) : range_(range), frame_(frame) {}
  explicit PromptIds(Encode encode) : encode_(std::move(encode)) {}

  /// Whether the ids of an answer are those of its text; otherwise only their number is known.
  [[nodiscard]] bool encodes_text() const { return encode_ != nullptr; }

  [[nodiscard]] std::vector<TokenId> of(const std::vector<text::ChatMessage>& messages) const;

 private:
  [[nodiscard]] std::vector<TokenId> tokens_of(const std::vector<text::ChatMessage>& messages) const;

  TokenIdRange range_ = {};
  PromptFrame frame_ = PromptFrame::kNone;
  Encode encode_ = nullptr;
};

}  // namespace kvist::workload
