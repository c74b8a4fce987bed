#include "kvist/text/chat.h"

#include <string_view>

namespace kvist::text {
namespace {

constexpr std::size_t kTokensPerMessage = 3;  // special ones
constexpr std::string_view kAssistant = "assistant";

// Roles and contents are encoded with encode(), which never produces a special token, so whatever a user writes stays
// text.
void append_header(std::string_view role, const tokenizer::Tokenizer& tokenizer, std::vector<TokenId>& out) {
  out.push_back(tokenizer.special(tokenizer::SpecialToken::kBeginHeader));
  tokenizer.encode(role, out);
  out.push_back(tokenizer.special(tokenizer::SpecialToken::kEndHeader));
}

}  // namespace

void SimpleChatTemplate::render(const ChatInput& input, const tokenizer::Tokenizer& tokenizer,
                                std::vector<TokenId>& prompt) const {
  // A text has at most as many tokens as bytes, so one allocation is enough for the prompt.
  std::size_t most_tokens = kTokensPerMessage + kAssistant.size();
  for (const ChatMessage& message : input.messages) {
    most_tokens += kTokensPerMessage + message.role.size() + message.content.size();
  }
  prompt.clear();
  prompt.reserve(most_tokens);
  prompt.push_back(tokenizer.special(tokenizer::SpecialToken::kBeginOfText));
  for (const ChatMessage& message : input.messages) {
    append_header(message.role, tokenizer, prompt);
    tokenizer.encode(message.content, prompt);
    prompt.push_back(tokenizer.special(tokenizer::SpecialToken::kEndOfTurn));
  }
  if (input.continue_final_message && !input.messages.empty()) prompt.pop_back();
  if (input.add_generation_prompt) append_header(kAssistant, tokenizer, prompt);
}

}  // namespace kvist::text
