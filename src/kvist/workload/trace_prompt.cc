#include "kvist/workload/trace_prompt.h"

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/text/chat.h"
#include "kvist/text/prose.h"

namespace kvist::workload {
namespace {

constexpr std::size_t kProseBytes = std::size_t{64} << 10;
// So many letters can express any 64-bit id, because 26^14 > 2^64.
constexpr std::size_t kNameLetters = 14;
// The id is written after the part of a block that the chat template may cover, so that it is complete in the first
// block too.
constexpr std::size_t kNameAt = 8;

void spell(std::uint64_t name, char* out) {
  for (std::size_t i = 0; i < kNameLetters; ++i, name /= 26) out[i] = static_cast<char>('a' + name % 26);
}

}  // namespace

TracePrompts::TracePrompts(std::uint64_t seed, std::uint32_t tokens_per_hash)
    : seed_(mix_seed({seed, seed_part("trace prompt")})),
      block_bytes_(tokens_per_hash),
      prose_(text::prose(seed_, kProseBytes + tokens_per_hash)) {
  KVIST_CHECK(tokens_per_hash >= 1, "a hash stands for at least one token");
  const tokenizer::ByteTokenizer tokenizer;
  const text::SimpleChatTemplate chat_template;
  // Finds where the message's text is in the rendered prompt.
  const std::string probe = "#";
  const std::vector<TokenId> prompt = chat_template.render({{"user", probe}}, tokenizer);
  const auto place = std::ranges::find(prompt, TokenId('#'));
  template_before_ = static_cast<std::size_t>(place - prompt.begin());
  template_after_ = prompt.size() - template_before_ - probe.size();
  const std::vector<TokenId> three =
      chat_template.render({{"user", probe}, {"assistant", probe}, {"user", probe}}, tokenizer);
  template_between_ = three.size() - 3 * probe.size() - template_before_ - 2 * template_after_;
  KVIST_CHECK(template_before_ <= kNameAt, "the template covers the name of the first block");
}

std::string TracePrompts::message_of(const TraceRequest& request, std::uint64_t index) const {
  const std::size_t end = std::max<std::size_t>(request.input_tokens, template_before_ + 1 + template_after_) -
                          template_after_;  // of the message in the prompt
  return text_between(request, index, template_before_, end);
}

std::optional<std::vector<text::ChatMessage>> TracePrompts::continued(std::vector<text::ChatMessage> messages,
                                                                      std::string answer, const TraceRequest& request,
                                                                      std::uint64_t index) const {
  // Users and answers take turns: in front of each message but the first is one answer.
  std::size_t begin = template_before_ + messages.front().content.size();
  for (std::size_t i = 1; i + 1 < messages.size(); i += 2) {
    begin += template_after_ + messages[i].content.size() + template_between_ + messages[i + 1].content.size();
  }
  begin += template_after_ + answer.size() + template_between_;
  if (begin + 1 + template_after_ > request.input_tokens) return std::nullopt;
  messages.push_back({"assistant", std::move(answer)});
  messages.push_back({"user", text_between(request, index, begin, request.input_tokens - template_after_)});
  return messages;
}

std::string TracePrompts::text_between(const TraceRequest& request, std::uint64_t index, std::size_t begin,
                                       std::size_t end) const {
  std::string text;
  const std::size_t first = begin / block_bytes_;
  text.reserve(end - first * block_bytes_ + block_bytes_);
  for (std::size_t i = first; i * block_bytes_ < end; ++i) {
    const bool has_id = i < request.hash_ids.size();
    append_block(has_id ? request.hash_ids[i] ^ seed_
                        : mix_seed({seed_, seed_part("of no id"), index, i - request.hash_ids.size()}),
                 text);
  }
  return text.substr(begin - first * block_bytes_, end - begin);
}

void TracePrompts::append_block(std::uint64_t name, std::string& out) const {
  const std::size_t begin = out.size();
  const std::uint64_t drawn = mix_seed({name});
  if (block_bytes_ < kNameAt + kNameLetters + 2) {
    // The text is too short for an id within prose, so it consists of letters drawn from the id.
    RandomStream random(drawn);
    for (std::size_t i = 0; i < block_bytes_; ++i) out.push_back(static_cast<char>('a' + random.uniform_int(0, 25)));
    return;
  }
  out.append(prose_, drawn % kProseBytes, block_bytes_);
  char* const name_at = out.data() + begin + kNameAt;
  name_at[-1] = ' ';
  spell(name, name_at);
  name_at[kNameLetters] = ' ';
}

}  // namespace kvist::workload
