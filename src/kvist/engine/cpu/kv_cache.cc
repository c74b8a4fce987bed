#include "kvist/engine/cpu/kv_cache.h"

#include <fmt/format.h>

#include "kvist/base/check.h"

namespace kvist::engine::cpu {

KvCache::KvCache(const LlamaConfig& config, std::uint32_t blocks, std::uint32_t block_size)
    : blocks_(blocks),
      block_size_(block_size),
      kv_heads_(config.kv_heads),
      head_stride_(std::size_t{2} * config.head_dim * block_size),
      block_stride_(head_stride_ * config.kv_heads * config.layers),
      memory_(bytes_per_block(config, block_size) * blocks) {
  KVIST_CHECK(supports(block_size), fmt::format("no block size: {}", block_size));
}

bool KvCache::supports(std::uint32_t block_size) {
  return block_size == 16 || block_size == 32 || block_size == 64 || block_size == 128;
}

std::uint64_t KvCache::bytes_per_block(const LlamaConfig& config, std::uint32_t block_size) {
  return 2 * sizeof(Bf16) * config.layers * config.kv_width() * block_size;
}

}  // namespace kvist::engine::cpu
