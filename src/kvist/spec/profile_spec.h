// Which GPU, model and engine a timed worker stands for; perfmodel turns it into step times and memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace kvist::spec {

/// What a memory fraction is a share of.
enum class MemoryMeaning {
  kEngine,   ///< the engine behaviour's own
  kOfTotal,  ///< of the GPU's memory; weights and activations come out of it (vLLM; the published plan)
  kOfFree,   ///< of what is free once weights and activations are there, all of it for KV (TensorRT-LLM)
};

/// How the KV cache stores a number.
enum class KvDtype {
  kFp8,   ///< 1 byte
  kFp16,  ///< 2 bytes: FP16 or BF16
};

/// Names of the profile parts that kvist carries (data/profiles), or a file of one's own, as `kvist fit` writes it.
struct ProfileSpec {
  std::string gpu = "h200";                 ///< "h200", "h100"
  std::string model = "llama-3.1-70b-fp8";  ///< "llama-3.1-70b-fp8", "llama-3.1-8b-fp8"
  std::string engine = "trtllm";            ///< "trtllm", "vllm": the engine behaviour
  std::uint32_t tensor_parallel = 1;        ///< GPUs per worker: 1, 2, 4
  KvDtype kv_dtype = KvDtype::kFp8;         ///< of the model's and the drafter's KV cache
  /// Share of the GPU's memory: TensorRT-LLM's free_gpu_memory_fraction or vLLM's gpu_memory_utilization; 0: the
  /// engine's default.
  double memory_fraction = 0;
  MemoryMeaning memory_meaning = MemoryMeaning::kEngine;
  std::string file;  ///< coefficients of one's own in place of the engine behaviour's; empty: none
  /// Single coefficients and switches in place of the file's: {"graphs.padding", 1}. perfmodel knows the names.
  std::map<std::string, double> set;

  bool operator==(const ProfileSpec&) const = default;
};

}  // namespace kvist::spec
