#include "kvist/workload/prompt_ids.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "kvist/base/random.h"

namespace kvist::workload {
namespace {

constexpr std::uint32_t kMaxTokenId = (std::uint32_t{1} << 31) - 1;

bool read_id(std::string_view text, std::uint32_t& id) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc() && end == text.data() + text.size() && id <= kMaxTokenId;
}

}  // namespace

Result<TokenIdRange> parse_token_ids(const std::string& text) {
  TokenIdRange range;
  const std::size_t dash = text.find('-');
  const bool read = dash != std::string::npos && read_id(std::string_view(text).substr(0, dash), range.first) &&
                    read_id(std::string_view(text).substr(dash + 1), range.last);
  if (read && range.first < range.last) return range;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("\"{}\"; want the first and the last of the ids to send, like 1000-30000", text));
}

std::vector<TokenId> PromptIds::tokens_of(const std::vector<text::ChatMessage>& messages) const {
  if (frame_ == PromptFrame::kChatTemplate) {
    return text::SimpleChatTemplate{}.render(text::ChatInput{.messages = messages}, tokenizer::ByteTokenizer{});
  }
  std::vector<TokenId> tokens;
  for (const text::ChatMessage& message : messages) {
    for (const char byte : message.content) tokens.emplace_back(static_cast<unsigned char>(byte));
  }
  return tokens;
}

std::vector<TokenId> PromptIds::of(const std::vector<text::ChatMessage>& messages) const {
  if (encode_) {
    std::string text;
    for (const text::ChatMessage& message : messages) {
      // Between two messages a space, as a word of one message must not go on in the next.
      if (!text.empty()) text.push_back(' ');
      text += message.content;
    }
    return encode_(text);
  }
  std::vector<TokenId> tokens = tokens_of(messages);
  const std::uint64_t count = std::uint64_t{range_.last} - range_.first + 1;
  for (std::size_t place = 0; place < tokens.size(); ++place) {
    const std::uint64_t drawn = mix_seed({place, tokens[place].value()}) % count;
    tokens[place] = TokenId(range_.first + static_cast<std::uint32_t>(drawn));
  }
  return tokens;
}

}  // namespace kvist::workload
