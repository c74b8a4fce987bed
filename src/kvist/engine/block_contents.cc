#include "kvist/engine/block_contents.h"

#include <algorithm>
#include <cstddef>

namespace kvist::engine {

BlockContents::BlockContents(std::uint32_t blocks, std::uint32_t block_size)
    : block_size_(block_size), contents_(blocks), tokens_(std::size_t{blocks} * block_size) {}

bool BlockContents::holds(kv::BlockId block, std::span<const TokenId> tokens, std::uint64_t before) const {
  const auto own = std::span(tokens_).subspan(std::size_t{block.value()} * block_size_, block_size_);
  return contents_[block.value()].before == before && std::ranges::equal(own, tokens);
}

void BlockContents::set(kv::BlockId block, std::span<const TokenId> tokens, std::uint64_t before,
                        std::optional<kv::BlockId> twin) {
  contents_[block.value()] = {.number = twin ? number(*twin) : ++last_, .before = before};
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(std::size_t{block.value()} * block_size_));
}

}  // namespace kvist::engine
