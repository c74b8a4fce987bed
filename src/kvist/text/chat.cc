#include "kvist/text/chat.h"

namespace kvist::text {
namespace {

// Roles and contents go through encode() alone, which cannot produce a special token: whatever a user writes there
// stays text.
void append_header(std::string_view role, const Tokenizer& tokenizer, std::vector<TokenId>& out) {
  out.push_back(tokenizer.special(SpecialToken::kBeginHeader));
  tokenizer.encode(role, out);
  out.push_back(tokenizer.special(SpecialToken::kEndHeader));
}

}  // namespace

std::vector<TokenId> SimpleChatTemplate::render(const std::vector<ChatMessage>& messages,
                                                const Tokenizer& tokenizer) const {
  std::vector<TokenId> prompt;
  prompt.push_back(tokenizer.special(SpecialToken::kBeginOfText));
  for (const ChatMessage& message : messages) {
    append_header(message.role, tokenizer, prompt);
    tokenizer.encode(message.content, prompt);
    prompt.push_back(tokenizer.special(SpecialToken::kEndOfTurn));
  }
  append_header("assistant", tokenizer, prompt);
  return prompt;
}

}  // namespace kvist::text
