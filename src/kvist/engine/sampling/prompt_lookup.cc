#include "kvist/engine/sampling/prompt_lookup.h"

#include <algorithm>

#include "kvist/base/random.h"

namespace kvist::engine {

PromptLookup::Key PromptLookup::key(std::size_t end, std::uint32_t length) const {
  std::uint64_t hash = length;
  for (std::size_t i = end - length; i < end; ++i) hash = mix_seed({hash, tokens_[i].value()});
  return Key(hash);
}

bool PromptLookup::is_same(std::size_t a_end, std::size_t b_end, std::uint32_t length) const {
  return std::equal(tokens_.begin() + static_cast<std::ptrdiff_t>(a_end - length),
                    tokens_.begin() + static_cast<std::ptrdiff_t>(a_end),
                    tokens_.begin() + static_cast<std::ptrdiff_t>(b_end - length));
}

void PromptLookup::begin(std::span<const TokenId> prompt, bool proposes) {
  proposes_ = proposes;
  tokens_.clear();
  latest_ = {};
  for (const TokenId token : prompt) add(token);
}

// The n-grams that end just before the new token now have a continuation.
void PromptLookup::add(TokenId token) {
  const std::size_t end = tokens_.size();
  for (std::uint32_t length = kShortest; proposes_ && length <= kLongest && length <= end; ++length) {
    latest_[key(end, length)] = static_cast<std::uint32_t>(end);
  }
  tokens_.push_back(token);
}

void PromptLookup::propose(std::uint32_t most, std::vector<TokenId>& drafts) const {
  drafts.clear();
  const std::size_t end = tokens_.size();
  for (std::uint32_t length = kLongest; length >= kShortest && most > 0; --length) {
    if (length > end) continue;
    const std::uint32_t* const place = latest_.find(key(end, length));
    // Keys are hashes, so two n-grams may have the same one.
    if (place == nullptr || !is_same(*place, end, length)) continue;
    const std::size_t count = std::min<std::size_t>(most, end - *place);
    drafts.assign(tokens_.begin() + *place, tokens_.begin() + static_cast<std::ptrdiff_t>(*place + count));
    return;
  }
}

}  // namespace kvist::engine
