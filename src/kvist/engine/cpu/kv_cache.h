// The memory behind the engine's KV blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvist/engine/cpu/aligned_buffer.h"
#include "kvist/engine/cpu/kv_type.h"
#include "kvist/engine/cpu/llama_config.h"
#include "kvist/kv/block_pool.h"

namespace kvist::engine::cpu {

/// Keys and values of `blocks` blocks of `block_size` tokens, as numbers of one type. A block is contiguous memory:
/// [layer][KV head][keys: head_dim x block_size, then values: block_size x head_dim] (kernels AttentionTask). Only the
/// owner of a block writes it; the pool assigns owners (kv/block_pool.h). Move-only.
class KvCache {
 public:
  /// Requires: supports(block_size).
  KvCache(const LlamaConfig& config, std::uint32_t blocks, std::uint32_t block_size, KvType type);

  /// 16, 32, 64 or 128 tokens.
  [[nodiscard]] static bool supports(std::uint32_t block_size);
  [[nodiscard]] static std::uint64_t bytes_per_block(const LlamaConfig& config, std::uint32_t block_size, KvType type);

  [[nodiscard]] std::uint32_t blocks() const { return blocks_; }
  [[nodiscard]] std::uint32_t block_size() const { return block_size_; }
  [[nodiscard]] KvType type() const { return type_; }
  /// The distance between two consecutive blocks, in numbers.
  [[nodiscard]] std::size_t block_stride() const { return block_stride_; }
  /// One layer and head of block 0.
  [[nodiscard]] const std::byte* head(std::uint32_t layer, std::uint32_t kv_head) const {
    return memory_.as<std::byte>().data() + head_at(layer, kv_head) * bytes_of(type_);
  }
  /// All of a block.
  [[nodiscard]] std::span<std::byte> block(kv::BlockId block) {
    const std::size_t bytes = block_stride_ * bytes_of(type_);
    return memory_.as<std::byte>().subspan(block.value() * bytes, bytes);
  }

  /// A token's place in a layer and head.
  struct Place {
    std::uint32_t layer = 0;
    std::uint32_t kv_head = 0;
    kv::BlockId block;
    std::uint32_t offset = 0;  ///< in the block
  };
  /// Stores a token's key and value, head_dim numbers each, rounded to the nearest. Threads: any, for different places.
  void store(const Place& place, const float* key, const float* value);

 private:
  [[nodiscard]] std::size_t head_at(std::uint32_t layer, std::uint32_t kv_head) const {
    return (std::size_t{layer} * kv_heads_ + kv_head) * head_stride_;
  }

  std::uint32_t blocks_;
  std::uint32_t block_size_;
  std::uint32_t kv_heads_;
  std::uint32_t head_dim_;
  KvType type_;
  std::size_t head_stride_;
  std::size_t block_stride_;
  AlignedBuffer memory_;
};

}  // namespace kvist::engine::cpu
