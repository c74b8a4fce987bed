// Where the memory of a GPU goes: weights, drafter, activations, context, and what is left for KV blocks.
#pragma once

#include <cstdint>
#include <optional>

#include "kvist/base/error.h"
#include "kvist/spec/deployment.h"

namespace kvist::perfmodel {

/// Of one GPU of a worker; every GPU of a tensor-parallel worker has the same. All sizes in bytes of that GPU.
struct MemoryPlan {
  double total_bytes = 0;                                       ///< as CUDA reports it
  double fraction = 0;                                          ///< of the memory, in the sense of `meaning`
  spec::MemoryMeaning meaning = spec::MemoryMeaning::kOfTotal;  ///< never kEngine
  double weight_bytes = 0;
  double drafter_weight_bytes = 0;        ///< 0 without speculation
  double context_bytes = 0;               ///< CUDA context, graphs, workspaces
  double activation_bytes = 0;            ///< as the engine plans them, from the step's token budget
  double activation_peak_bytes = 0;       ///< of the worst step
  double kv_bytes = 0;                    ///< the pool: what the fraction leaves; 0 if there is nothing left
  double kv_bytes_per_token = 0;          ///< of the model
  double drafter_kv_bytes_per_token = 0;  ///< of the drafter, beside it
  std::uint32_t block_size = 0;           ///< tokens
  std::uint32_t kv_blocks = 0;            ///< of the worker; the same blocks on each of its GPUs

  /// At the worst moment, everything together.
  [[nodiscard]] double peak_bytes() const;
  /// Whether there is a pool, and the worst moment fits the GPU.
  [[nodiscard]] bool fits() const;
  [[nodiscard]] std::uint64_t kv_tokens() const { return std::uint64_t{kv_blocks} * block_size; }
  /// Sequences of so many tokens that fit at once, each in blocks of its own.
  [[nodiscard]] std::uint64_t sequences(std::uint64_t tokens_each) const;
};

/// The plan of a worker with a profile, whether it fits or not. Requires: a profile. Errors: unknown names.
///
/// What each fraction leaves for KV (weights etc. of one GPU):
///   of_total:  fraction x total - weights - drafter - context - activations     (vLLM; the published plan)
///   of_free:   fraction x (total - weights - drafter - context - activations)   (TensorRT-LLM)
/// Activations of a step are its token budget x 2 bytes x (3 x intermediate size / tensor parallel + 3 x hidden size):
/// gate, up and their product; residual, normalised input and output of a layer.
[[nodiscard]] Result<MemoryPlan> make_memory_plan(const spec::WorkerSpec& worker);

/// The largest fraction below the plan's, in steps of 0.05, with which the worker fits; none where no fraction helps.
[[nodiscard]] Result<std::optional<double>> smaller_fraction_that_fits(const spec::WorkerSpec& worker,
                                                                       const MemoryPlan& plan);

/// kResourceExhausted if the plan does not fit: what needs how much, and the fraction that would work.
[[nodiscard]] Result<void> check_memory(const spec::WorkerSpec& worker, const MemoryPlan& plan);

}  // namespace kvist::perfmodel
