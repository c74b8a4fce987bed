// A worker that computes: which model, with how much of the machine.
#pragma once

#include <cstdint>
#include <string>

namespace kvist::spec {

/// How the weights are kept in memory.
enum class WeightType {
  kAsStored,  ///< BF16 where the checkpoint's matrices are BF16, else F32
  kBf16,
  kF32,
};

/// How keys and values are kept in the KV blocks.
enum class CpuKvType {
  kAsWeights,  ///< as the weights are in memory: BF16 or F32
  kBf16,
  kF16,
  kF32,
};

struct CpuEngineSpec {
  std::string model;          ///< directory of a Hugging Face checkpoint of the Llama family
  std::uint32_t threads = 0;  ///< that compute; 0: one per core
  WeightType weights = WeightType::kAsStored;
  CpuKvType kv_dtype = CpuKvType::kAsWeights;
  /// For weights, activations and KV blocks together; the KV memory is what is left of it, unless the worker's
  /// kv_blocks says how much.
  std::uint64_t memory_bytes = 4ULL << 30;

  bool operator==(const CpuEngineSpec&) const = default;
};

}  // namespace kvist::spec
