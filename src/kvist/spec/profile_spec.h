// Which GPU, model and engine a timed worker stands for; perfmodel turns it into step times and memory.
#pragma once

#include <cstdint>
#include <string>

namespace kvist::spec {

/// Names of the profile parts that kvist carries (data/profiles), or a file of one's own, as `kvist fit` writes it.
struct ProfileSpec {
  std::string gpu = "h200";                 ///< "h200", "h100"
  std::string model = "llama-3.1-70b-fp8";  ///< "llama-3.1-70b-fp8", "llama-3.1-8b-fp8"
  std::string engine = "trtllm";            ///< "trtllm", "vllm": the engine behaviour
  std::uint32_t tensor_parallel = 1;        ///< GPUs per worker: 1, 2, 4
  /// Share of the GPU's memory: TensorRT-LLM's free_gpu_memory_fraction or vLLM's gpu_memory_utilization, with the
  /// meaning of the engine behaviour; 0: the engine's default.
  double memory_fraction = 0;
  std::string file;  ///< coefficients of one's own in place of the engine behaviour's; empty: none

  bool operator==(const ProfileSpec&) const = default;
};

}  // namespace kvist::spec
