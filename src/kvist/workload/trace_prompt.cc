#include "kvist/workload/trace_prompt.h"

#include <algorithm>

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
  KVIST_CHECK(template_before_ <= kNameAt, "the template covers the name of the first block");
}

std::string TracePrompts::message_of(const TraceRequest& request, std::uint64_t index) const {
  const std::size_t end = std::max<std::size_t>(request.input_tokens, template_before_ + 1 + template_after_) -
                          template_after_;  // position of the message in the prompt
  std::string text;
  text.reserve(end + block_bytes_);
  for (std::size_t i = 0; text.size() < end && i < request.hash_ids.size(); ++i) {
    append_block(request.hash_ids[i] ^ seed_, text);
  }
  for (std::uint64_t block = 0; text.size() < end; ++block) {
    append_block(mix_seed({seed_, seed_part("of no id"), index, block}), text);
  }
  return text.substr(template_before_, end - template_before_);
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
