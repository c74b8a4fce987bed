// A Llama-architecture model's weights, packed for the kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/engine/cpu/checkpoint.h"
#include "kvist/engine/cpu/llama_config.h"
#include "kvist/engine/cpu/packed_matrix.h"
#include "kvist/engine/cpu/thread_pool.h"

namespace kvist::engine::cpu {

/// One transformer layer. Norm weights and biases are F32; those of whole rows are padded (kernels::padded).
struct LlamaLayer {
  std::vector<float> attention_norm;
  PackedMatrix qkv;               ///< query, key and value heads side by side
  std::vector<float> qkv_bias;    ///< likewise; empty without biases
  std::vector<float> query_norm;  ///< of one head, all share it; empty without
  std::vector<float> key_norm;
  PackedMatrix attention_out;
  std::vector<float> mlp_norm;
  PackedMatrix gate_up;  ///< panels of gate and up alternate
  PackedMatrix down;
};

/// The default type of packed weights: BF16 if the checkpoint's matrices are BF16, else F32, which holds F16 and F32
/// exactly. Errors: as Checkpoint::tensor() for the first layer.
[[nodiscard]] Result<DataType> default_weight_type(const Checkpoint& checkpoint, const LlamaConfig& config);

/// Immutable once loaded; move-only. Threads: any.
class LlamaModel {
 public:
  /// Reads and packs every tensor. `type` is kF32 or kBf16. Errors: a tensor that is missing, has another shape than
  /// the config says, or a type that is not supported; each names file and tensor.
  [[nodiscard]] static Result<LlamaModel> load(const Checkpoint& checkpoint, const LlamaConfig& config, DataType type,
                                               ThreadPool& pool);
  /// The memory that load() will take, in bytes. Reads nothing.
  [[nodiscard]] static std::uint64_t bytes_for(const LlamaConfig& config, DataType type);

  [[nodiscard]] const LlamaConfig& config() const { return config_; }
  [[nodiscard]] const std::vector<LlamaLayer>& layers() const { return layers_; }
  [[nodiscard]] const std::vector<float>& final_norm() const { return final_norm_; }
  [[nodiscard]] const PackedMatrix& output() const { return output_; }
  /// Writes a token's embedding, hidden_size numbers. Requires: token < vocabulary.
  void embed(TokenId token, float* out) const;
  /// Bytes of weights that a step reads: all but the embedding table.
  [[nodiscard]] std::uint64_t bytes_per_step() const;

 private:
  LlamaModel() = default;

  LlamaConfig config_;
  std::vector<LlamaLayer> layers_;
  std::vector<float> final_norm_;
  PackedMatrix output_;
  AlignedBuffer embeddings_;  // [vocabulary][hidden], unless they are tied
  DataType type_ = DataType::kBf16;
};

}  // namespace kvist::engine::cpu
