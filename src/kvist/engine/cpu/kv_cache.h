// The memory behind the engine's KV blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvist/engine/cpu/aligned_buffer.h"
#include "kvist/engine/cpu/bf16.h"
#include "kvist/engine/cpu/llama_config.h"
#include "kvist/kv/block_pool.h"

namespace kvist::engine::cpu {

/// Keys and values of `blocks` blocks of `block_size` tokens, in BF16. A block is one piece of memory:
/// [layer][KV head][keys: head_dim x block_size, then values: block_size x head_dim] (kernels AttentionTask).
/// Who owns a block says who may write it; the pool says that (kv/block_pool.h). Move-only.
class KvCache {
 public:
  /// Requires a block size that supports() names.
  KvCache(const LlamaConfig& config, std::uint32_t blocks, std::uint32_t block_size);

  /// 16, 32, 64 or 128 tokens.
  [[nodiscard]] static bool supports(std::uint32_t block_size);
  [[nodiscard]] static std::uint64_t bytes_per_block(const LlamaConfig& config, std::uint32_t block_size);

  [[nodiscard]] std::uint32_t blocks() const { return blocks_; }
  [[nodiscard]] std::uint32_t block_size() const { return block_size_; }
  /// Numbers from a place in one block to the same place in the next.
  [[nodiscard]] std::size_t block_stride() const { return block_stride_; }
  /// One layer and head of block 0.
  [[nodiscard]] Bf16* head(std::uint32_t layer, std::uint32_t kv_head) {
    return memory_.as<Bf16>().data() + (std::size_t{layer} * kv_heads_ + kv_head) * head_stride_;
  }
  /// All of a block.
  [[nodiscard]] std::span<Bf16> block(kv::BlockId block) {
    return memory_.as<Bf16>().subspan(block.value() * block_stride_, block_stride_);
  }

 private:
  std::uint32_t blocks_;
  std::uint32_t block_size_;
  std::uint32_t kv_heads_;
  std::size_t head_stride_;
  std::size_t block_stride_;
  AlignedBuffer memory_;
};

}  // namespace kvist::engine::cpu
