#include "kvist/text/prompt_encoding.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kvist::text {
namespace {

void keep_last(std::vector<TokenId>& tokens, std::size_t count) {
  if (tokens.size() > count) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(count));
}

}  // namespace

std::vector<TokenId> encode_prompt(const tokenizer::Tokenizer& tokenizer, tokenizer::RenderedPrompt prompt,
                                   const PromptEncoding& how) {
  if (how.specials) prompt.from_messages.clear();
  std::vector<TokenId> tokens;
  tokenizer.encode_prompt(prompt, tokens);
  const tokenizer::Tokenizer::Frame frame = how.framed ? tokenizer.completion_frame() : tokenizer::Tokenizer::Frame();
  // Hugging Face's tokenizers truncate before they add the frame.
  const bool by_default = how.truncation && how.truncation->side == Truncation::Side::kDefault;
  const std::size_t frame_tokens = frame.before.size() + frame.behind.size();
  if (by_default)
    keep_last(tokens, how.truncation->tokens - std::min<std::size_t>(how.truncation->tokens, frame_tokens));
  tokens.insert(tokens.begin(), frame.before.begin(), frame.before.end());
  tokens.insert(tokens.end(), frame.behind.begin(), frame.behind.end());
  truncate(tokens, how.truncation);
  return tokens;
}

void truncate(std::vector<TokenId>& tokens, const std::optional<Truncation>& truncation) {
  if (!truncation || tokens.size() <= truncation->tokens) return;
  if (truncation->side == Truncation::Side::kKeepFirst) {
    tokens.resize(truncation->tokens);
  } else {
    keep_last(tokens, truncation->tokens);
  }
}

tokenizer::RenderedPrompt completion_prompt(std::string text) {
  tokenizer::RenderedPrompt prompt{.text = std::move(text), .from_messages = {}};
  if (!prompt.text.empty()) prompt.from_messages.push_back({0, prompt.text.size()});
  return prompt;
}

}  // namespace kvist::text
