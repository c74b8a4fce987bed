// Chat messages and the template that makes one prompt of them.
#pragma once

#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/text/tokenizer.h"

namespace kvist::text {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant", "tool"
  std::string content;
};

/// A chat template. Immutable; any thread may use it. It places special tokens itself and encodes what users wrote as
/// plain text, so that no message can inject a special token.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  /// The prompt tokens of a conversation, ending with the header of the assistant's answer. For messages m, the prompt
  /// of m is a prefix of the prompt of m followed by the answer and more messages, given that the answer ends with
  /// kEndOfTurn.
  [[nodiscard]] virtual std::vector<TokenId> render(const std::vector<ChatMessage>& messages,
                                                    const Tokenizer& tokenizer) const = 0;
};

/// begin_of_text, then per message: begin_header role end_header content end_of_turn; at the end the assistant's
/// header.
class SimpleChatTemplate final : public ChatTemplate {
 public:
  [[nodiscard]] std::vector<TokenId> render(const std::vector<ChatMessage>& messages,
                                            const Tokenizer& tokenizer) const override;
};

}  // namespace kvist::text
