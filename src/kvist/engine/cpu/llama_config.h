// The sizes and options of a Llama-architecture model, from its config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::engine::cpu {

/// Llama 3's scaling of the rotary frequencies (rope_type "llama3").
struct Llama3RopeScaling {
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  std::uint32_t original_positions = 8192;
};

/// The model's sizes. Every number is within the bounds that parse_llama_config() enforces, so the product of any three
/// fits 64 bits.
struct LlamaConfig {
  std::string architecture;
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;
  std::uint32_t layers = 0;
  std::uint32_t heads = 0;     ///< query heads
  std::uint32_t kv_heads = 0;  ///< divides heads
  std::uint32_t head_dim = 0;  ///< a multiple of kHeadDimStep
  std::uint32_t vocabulary = 0;
  std::uint32_t max_positions = 0;
  double rms_norm_epsilon = 0;
  double rope_theta = 0;
  std::optional<Llama3RopeScaling> rope_scaling;
  bool tied_embeddings = false;
  bool qkv_bias = false;  ///< queries, keys and values have biases (Qwen2)
  bool qk_norm = false;   ///< each query and key head is normalized before its rotation (Qwen3)
  std::optional<std::uint32_t> begin_token;
  std::vector<std::uint32_t> end_tokens;  ///< ascending; any of them ends an answer

  [[nodiscard]] std::uint32_t group() const { return heads / kv_heads; }  ///< query heads per KV head
  [[nodiscard]] std::uint64_t query_width() const { return std::uint64_t{heads} * head_dim; }
  [[nodiscard]] std::uint64_t kv_width() const { return std::uint64_t{kv_heads} * head_dim; }
  [[nodiscard]] std::uint64_t qkv_width() const { return query_width() + 2 * kv_width(); }
  /// The number of parameters; tied embeddings count once.
  [[nodiscard]] std::uint64_t parameters() const;
};

/// Head dimensions are multiples of this: the attention kernels have no tail loops.
inline constexpr std::uint32_t kHeadDimStep = 16;

/// Reads config.json. Supported: LlamaForCausalLM, and MistralForCausalLM, Qwen2ForCausalLM (Qwen2 and Qwen2.5) and
/// Qwen3ForCausalLM without sliding window. Keys that the reference implementation of these classes reads are supported
/// or, with any value that changes the computation, refused by name (kUnsupported): biases beyond Qwen2's own,
/// quantization, other activations and rope types, tensor-parallel pretraining. Keys that it does not read are ignored
/// as it ignores them. Other errors: kCorrupt (no JSON, a key missing, of a wrong type or out of bounds). `name` is the
/// file, for messages.
[[nodiscard]] Result<LlamaConfig> parse_llama_config(std::string_view json, std::string_view name);

/// Adds the end tokens of generation_config.json to those of config.json: chat models list more of them there.
[[nodiscard]] Result<void> add_generation_config(std::string_view json, std::string_view name, LlamaConfig& config);

/// Reads config.json of a model directory, and generation_config.json if it exists.
[[nodiscard]] Result<LlamaConfig> load_llama_config(const std::string& directory);

}  // namespace kvist::engine::cpu
