// Model directories with random weights, for tests and demos.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/engine/cpu/llama_config.h"
#include "kvist/engine/cpu/safetensors.h"

namespace kvist::engine::cpu {

/// Predefined shapes: tiny for tests (0.1 M weights beside the embeddings), small for demos on one thread (15 M), base
/// for measuring (160 M).
enum class ModelSize : std::uint8_t { kTiny, kSmall, kBase };

/// "tiny", "small", "base"; nothing for other names.
[[nodiscard]] std::optional<ModelSize> model_size_of(std::string_view name);

/// A config of that size with tied embeddings. The tokens are the tokenizer's. Requires: both are below `vocabulary`.
[[nodiscard]] LlamaConfig config_of(ModelSize size, std::uint32_t vocabulary, std::uint32_t begin_token,
                                    std::uint32_t end_token);

/// Writes config.json, generation_config.json and model.safetensors with random weights into `directory`, which is
/// created if it does not exist. `type` is kBf16, kF16 or kF32. The same arguments give the same bytes on every
/// machine: each tensor's numbers come from (seed, its name) in exact arithmetic. Matrices have a variance of 1 /
/// inputs, so that activations keep their size through the layers, biases one of 1 / 4; norms are near 1. Errors: a
/// file that cannot be written.
[[nodiscard]] Result<void> write_model(const LlamaConfig& config, DataType type, std::uint64_t seed,
                                       const std::string& directory);

}  // namespace kvist::engine::cpu
