// How the memory of a CPU worker is divided.
#pragma once

#include <cstdint>
#include <string>

#include "kvist/base/error.h"
#include "kvist/engine/cpu/forward_pass.h"
#include "kvist/engine/cpu/kv_type.h"
#include "kvist/engine/cpu/llama_config.h"
#include "kvist/engine/cpu/safetensors.h"

namespace kvist::engine::cpu {

/// The budget and the settings that determine each use.
struct MemoryRequest {
  std::uint64_t budget_bytes = 0;      ///< for weights, activations and KV blocks together
  DataType weights = DataType::kBf16;  ///< kF32 or kBf16, as packed
  KvType kv = KvType::kBf16;           ///< of keys and values
  std::uint32_t block_size = 16;       ///< tokens
  ForwardLimits limits;                ///< of a step
  unsigned threads = 1;
  std::uint32_t max_sequence_tokens = 0;  ///< the longest sequence, one of which must fit; 0: the model's limit
};

/// A divided budget: weights and activations take what they need, KV blocks the rest.
struct MemoryBudget {
  std::uint64_t budget_bytes = 0;
  std::uint64_t weight_bytes = 0;
  std::uint64_t activation_bytes = 0;
  std::uint64_t block_bytes = 0;  ///< of one KV block
  std::uint32_t blocks = 0;
  std::uint32_t block_size = 0;  ///< tokens
  std::uint32_t max_sequence_tokens = 0;
  DataType weights = DataType::kBf16;
  KvType kv = KvType::kBf16;
  ForwardLimits limits;

  [[nodiscard]] std::uint64_t kv_bytes() const { return block_bytes * blocks; }
  [[nodiscard]] std::uint64_t kv_tokens() const { return std::uint64_t{blocks} * block_size; }
  /// How many sequences of `tokens_each` tokens fit at once, without shared blocks.
  [[nodiscard]] std::uint64_t sequences(std::uint64_t tokens_each) const;
};

/// Divides the budget from the config alone, before a weight is read. Errors: kResourceExhausted if weights,
/// activations and one sequence of the greatest length do not fit, with what each needs; kUnsupported for a block size
/// that the kernels do not have.
[[nodiscard]] Result<MemoryBudget> divide_memory(const LlamaConfig& config, const MemoryRequest& request);

/// The table that a worker prints as it starts: one line per use, and how many sequences of which length fit.
[[nodiscard]] std::string memory_table(const MemoryBudget& budget);

}  // namespace kvist::engine::cpu
