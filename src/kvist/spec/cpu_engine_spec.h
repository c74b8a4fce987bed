// The settings of the CPU engine.
#pragma once

#include <cstdint>
#include <string>

namespace kvist::spec {

/// The type of the weights in memory.
enum class WeightType {
  kAsStored,  ///< BF16 if the checkpoint's matrices are BF16, otherwise F32
  kBf16,
  kF32,
};

/// The type of keys and values in the KV blocks.
enum class CpuKvType {
  kAsWeights,  ///< the type of the weights in memory: BF16 or F32
  kBf16,
  kF16,
  kF32,
};

struct CpuEngineSpec {
  std::string model;          ///< directory of a Hugging Face checkpoint of the Llama family
  std::uint32_t threads = 0;  ///< threads that compute; 0: one per core
  WeightType weights = WeightType::kAsStored;
  CpuKvType kv_dtype = CpuKvType::kAsWeights;
  /// The memory for weights, activations and KV blocks together. The KV memory is what remains, unless the worker's
  /// kv_blocks is set.
  std::uint64_t memory_bytes = 4ULL << 30;

  bool operator==(const CpuEngineSpec&) const = default;
};

}  // namespace kvist::spec
