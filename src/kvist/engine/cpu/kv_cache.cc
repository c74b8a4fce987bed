#include "kvist/engine/cpu/kv_cache.h"

#include <fmt/format.h>

#include "kvist/base/check.h"
#include "kvist/engine/cpu/bf16.h"

namespace kvist::engine::cpu {
namespace {

/// `block`: one layer and head of a block. The type is chosen outside of the loop.
template <class Number, class Convert>
void put(Number* block, std::size_t block_size, std::size_t head_dim, std::size_t offset, const float* key,
         const float* value, Convert convert) {
  Number* const values = block + head_dim * block_size + offset * head_dim;
  for (std::size_t d = 0; d < head_dim; ++d) {
    block[d * block_size + offset] = convert(key[d]);
    values[d] = convert(value[d]);
  }
}

}  // namespace

KvCache::KvCache(const LlamaConfig& config, std::uint32_t blocks, std::uint32_t block_size, KvType type)
    : blocks_(blocks),
      block_size_(block_size),
      kv_heads_(config.kv_heads),
      head_dim_(config.head_dim),
      type_(type),
      head_stride_(std::size_t{2} * config.head_dim * block_size),
      block_stride_(head_stride_ * config.kv_heads * config.layers),
      memory_(bytes_per_block(config, block_size, type) * blocks) {
  KVIST_CHECK(supports(block_size), fmt::format("no block size: {}", block_size));
}

bool KvCache::supports(std::uint32_t block_size) {
  return block_size == 16 || block_size == 32 || block_size == 64 || block_size == 128;
}

std::uint64_t KvCache::bytes_per_block(const LlamaConfig& config, std::uint32_t block_size, KvType type) {
  return 2 * bytes_of(type) * config.layers * config.kv_width() * block_size;
}

void KvCache::store(const Place& place, const float* key, const float* value) {
  const std::size_t at = place.block.value() * block_stride_ + head_at(place.layer, place.kv_head);
  const auto put_as = [&]<class Number>(std::span<Number> numbers, auto convert) {
    put(numbers.data() + at, block_size_, head_dim_, place.offset, key, value, convert);
  };
  switch (type_) {
    case KvType::kBf16:
      return put_as(memory_.as<Bf16>(), bf16_of_float);
    case KvType::kF16:
      return put_as(memory_.as<std::uint16_t>(), f16_of_float);
    case KvType::kF32:
      return put_as(memory_.as<float>(), [](float number) { return number; });
  }
}

}  // namespace kvist::engine::cpu
