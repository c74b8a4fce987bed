#include "kvist/engine/cpu/llama_model.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/engine/cpu/bf16.h"
#include "kvist/engine/cpu/kernels/kernels.h"

namespace kvist::engine::cpu {
namespace {

std::string layer_tensor(std::uint32_t layer, std::string_view name, std::string_view kind = "weight") {
  return fmt::format("model.layers.{}.{}.{}", layer, name, kind);
}

/// The columns of gate and up, which alternate, each padded to whole panels.
std::size_t gate_up_columns(const LlamaConfig& config) {
  const std::size_t panel = kernels::panel_columns();
  return 2 * ((config.intermediate_size + panel - 1) / panel * panel);
}

/// A tensor of `rows` rows and its place among a matrix's columns (PackedMatrix::place).
struct Part {
  std::string name;
  std::uint64_t rows = 0;
  std::size_t column = 0;
  std::size_t panel_step = 1;
};

/// Reads tensors of one model and packs them.
class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const LlamaConfig& config, DataType type, ThreadPool& pool)
      : checkpoint_(checkpoint), config_(config), type_(type), pool_(pool) {}

  Result<LlamaLayer> layer(std::uint32_t number) const {
    const auto name = [&](std::string_view part) { return layer_tensor(number, part); };
    const std::uint64_t hidden = config_.hidden_size;
    const std::uint64_t queries = config_.query_width();
    const std::uint64_t keys = config_.kv_width();
    const std::uint64_t intermediate = config_.intermediate_size;
    const std::size_t panel = kernels::panel_columns();
    LlamaLayer layer;
    KVIST_TRY(layer.attention_norm, vector(name("input_layernorm"), hidden));
    KVIST_TRY(layer.qkv, matrix(config_.qkv_width(), hidden,
                                {{name("self_attn.q_proj"), queries, 0},
                                 {name("self_attn.k_proj"), keys, queries},
                                 {name("self_attn.v_proj"), keys, queries + keys}}));
    if (config_.qkv_bias) {
      KVIST_TRY(layer.qkv_bias, qkv_bias(number));
    }
    if (config_.qk_norm) {
      KVIST_TRY(layer.query_norm, vector(name("self_attn.q_norm"), config_.head_dim));
      KVIST_TRY(layer.key_norm, vector(name("self_attn.k_norm"), config_.head_dim));
    }
    KVIST_TRY(layer.attention_out, matrix(hidden, queries, {{name("self_attn.o_proj"), hidden, 0}}));
    KVIST_TRY(layer.mlp_norm, vector(name("post_attention_layernorm"), hidden));
    KVIST_TRY(layer.gate_up,
              matrix(gate_up_columns(config_), hidden,
                     {{name("mlp.gate_proj"), intermediate, 0, 2}, {name("mlp.up_proj"), intermediate, panel, 2}}));
    KVIST_TRY(layer.down, matrix(hidden, intermediate, {{name("mlp.down_proj"), hidden, 0}}));
    return layer;
  }

  /// A tensor of n numbers, padded.
  Result<std::vector<float>> vector(const std::string& name, std::uint64_t n) const {
    const std::uint64_t shape[] = {n};
    KVIST_TRY(const TensorView tensor, checkpoint_.tensor(name, shape));
    std::vector<float> out(kernels::padded(n));
    for (std::size_t i = 0; i < n; ++i) out[i] = number_at(tensor, i);
    return out;
  }

  /// A matrix of parts. All tensors are found and their shapes checked before memory is allocated: a config cannot
  /// claim more than the checkpoint has.
  Result<PackedMatrix> matrix(std::size_t columns, std::size_t depth, const std::vector<Part>& parts) const {
    std::vector<TensorView> tensors;
    for (const Part& part : parts) {
      const std::uint64_t shape[] = {part.rows, depth};
      KVIST_TRY(const TensorView tensor, checkpoint_.tensor(part.name, shape));
      tensors.push_back(tensor);
    }
    PackedMatrix out(columns, depth, type_);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      out.place(tensors[i], parts[i].column, parts[i].panel_step, pool_);
      MappedFile::forget(tensors[i].bytes);  // packed: the file's pages are no longer needed
    }
    return out;
  }

  Result<std::vector<float>> qkv_bias(std::uint32_t layer) const {
    const std::pair<std::string_view, std::uint64_t> parts[] = {{"self_attn.q_proj", config_.query_width()},
                                                                {"self_attn.k_proj", config_.kv_width()},
                                                                {"self_attn.v_proj", config_.kv_width()}};
    std::vector<float> out;
    for (const auto& [name, n] : parts) {
      KVIST_TRY(std::vector<float> part, vector(layer_tensor(layer, name, "bias"), n));
      out.insert(out.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n));
    }
    out.resize(kernels::padded(out.size()));
    return out;
  }

  /// The embedding table row by row.
  Result<AlignedBuffer> embeddings() const {
    const std::uint64_t shape[] = {config_.vocabulary, config_.hidden_size};
    KVIST_TRY(const TensorView tensor, checkpoint_.tensor("model.embed_tokens.weight", shape));
    AlignedBuffer out(shape[0] * shape[1] * bytes_of(type_));
    pool_.run([&](unsigned thread) {
      const Range part = part_of(shape[0] * shape[1], thread, pool_.threads());
      for (std::size_t i = part.begin; i < part.end; ++i) {
        const float number = number_at(tensor, i);
        if (type_ == DataType::kF32) {
          out.as<float>()[i] = number;
        } else {
          out.as<Bf16>()[i] = bf16_of_float(number);
        }
      }
    });
    MappedFile::forget(tensor.bytes);
    return out;
  }

 private:
  const Checkpoint& checkpoint_;
  const LlamaConfig& config_;
  DataType type_;
  ThreadPool& pool_;
};

}  // namespace

Result<DataType> default_weight_type(const Checkpoint& checkpoint, const LlamaConfig& config) {
  const std::pair<std::string_view, std::uint64_t> rows[] = {{"self_attn.q_proj", config.query_width()},
                                                             {"self_attn.k_proj", config.kv_width()},
                                                             {"mlp.gate_proj", config.intermediate_size}};
  for (const auto& [name, n] : rows) {
    const std::uint64_t shape[] = {n, config.hidden_size};
    KVIST_TRY(const TensorView tensor, checkpoint.tensor(layer_tensor(0, name), shape));
    if (tensor.type != DataType::kBf16) return DataType::kF32;
  }
  return DataType::kBf16;
}

Result<LlamaModel> LlamaModel::load(const Checkpoint& checkpoint, const LlamaConfig& config, DataType type,
                                    ThreadPool& pool) {
  LlamaModel model;
  model.config_ = config;
  model.type_ = type;
  const Loader loader(checkpoint, model.config_, type, pool);
  // Tied embeddings serve as the output layer, even if the file has an lm_head.
  const std::string output = config.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  KVIST_TRY(model.output_, loader.matrix(config.vocabulary, config.hidden_size, {{output, config.vocabulary}}));
  if (!config.tied_embeddings) {
    KVIST_TRY(model.embeddings_, loader.embeddings());
  }
  KVIST_TRY(model.final_norm_, loader.vector("model.norm.weight", config.hidden_size));
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    KVIST_TRY(LlamaLayer layer, loader.layer(i));
    model.layers_.push_back(std::move(layer));
  }
  return model;
}

std::uint64_t LlamaModel::bytes_for(const LlamaConfig& config, DataType type) {
  const std::uint64_t hidden = config.hidden_size;
  const std::uint64_t layer =
      PackedMatrix::bytes_for(config.qkv_width(), hidden, type) +
      PackedMatrix::bytes_for(hidden, config.query_width(), type) +
      PackedMatrix::bytes_for(gate_up_columns(config), hidden, type) +
      PackedMatrix::bytes_for(hidden, config.intermediate_size, type) +
      (2 * kernels::padded(hidden) + (config.qkv_bias ? kernels::padded(config.qkv_width()) : 0) +
       (config.qk_norm ? 2 * kernels::padded(config.head_dim) : 0)) *
          sizeof(float);
  const std::uint64_t table = config.tied_embeddings ? 0 : config.vocabulary * hidden * bytes_of(type);
  return config.layers * layer + PackedMatrix::bytes_for(config.vocabulary, hidden, type) + table +
         kernels::padded(hidden) * sizeof(float);
}

void LlamaModel::embed(TokenId token, float* out) const {
  KVIST_CHECK(token.value() < config_.vocabulary, fmt::format("no token {}", token.value()));
  if (config_.tied_embeddings) return output_.row(token.value(), out);
  const std::size_t first = std::size_t{token.value()} * config_.hidden_size;
  for (std::size_t i = 0; i < config_.hidden_size; ++i) {
    out[i] =
        type_ == DataType::kF32 ? embeddings_.as<float>()[first + i] : float_of_bf16(embeddings_.as<Bf16>()[first + i]);
  }
}

std::uint64_t LlamaModel::bytes_per_step() const {
  std::uint64_t sum = output_.bytes();
  for (const LlamaLayer& layer : layers_) {
    sum += layer.qkv.bytes() + layer.attention_out.bytes() + layer.gate_up.bytes() + layer.down.bytes();
  }
  return sum;
}

}  // namespace kvist::engine::cpu
