// For tests: small models of every kind, and what computing with them takes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "engine/cpu/scratch_folder.h"
#include "kvist/engine/cpu/forward_pass.h"
#include "kvist/engine/cpu/model_writer.h"

namespace kvist::engine::cpu {

/// A kind of model: what can go wrong separately in each.
struct TinyModel {
  std::string name;
  std::uint32_t hidden = 64;
  std::uint32_t intermediate = 192;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_dim = 16;
  bool tied = true;
  bool scaled_rope = false;
  DataType file = DataType::kBf16;
  DataType packed = DataType::kBf16;
  std::string architecture = "LlamaForCausalLM";
  std::optional<KvType> kv_dtype = {};  // none: as the weights are packed

  [[nodiscard]] KvType kv() const { return kv_dtype.value_or(packed == DataType::kF32 ? KvType::kF32 : KvType::kBf16); }
  [[nodiscard]] LlamaConfig config() const {
    LlamaConfig config = config_of(ModelSize::kTiny, 97, 1, 2);
    config.hidden_size = hidden;
    config.intermediate_size = intermediate;
    config.heads = heads;
    config.kv_heads = kv_heads;
    config.head_dim = head_dim;
    config.layers = 3;
    config.tied_embeddings = tied;
    config.architecture = architecture;
    config.qkv_bias = architecture == "Qwen2ForCausalLM";
    config.qk_norm = architecture == "Qwen3ForCausalLM";
    config.rope_theta = 10000;
    if (scaled_rope) config.rope_scaling = Llama3RopeScaling{8, 1, 4, 64};
    return config;
  }
};

inline std::vector<TinyModel> tiny_models() {
  using enum DataType;
  return {
      {.name = "one_query_head_per_kv_head_f32", .kv_heads = 4, .tied = false, .file = kF32, .packed = kF32},
      {.name = "two_per_kv_head_bf16_tied"},
      {.name = "four_per_kv_head_f16", .heads = 8, .kv_heads = 2, .tied = false, .file = kF16, .packed = kF32},
      {.name = "eight_per_kv_head_bf16", .heads = 8, .kv_heads = 1, .head_dim = 32, .tied = false},
      {.name = "three_per_kv_head_odd_sizes_bf16", .hidden = 72, .intermediate = 100, .heads = 6, .head_dim = 48},
      {.name = "scaled_rope_f32_tied", .head_dim = 32, .scaled_rope = true, .file = kF32, .packed = kF32},
      {.name = "scaled_rope_bf16", .kv_heads = 1, .head_dim = 64, .tied = false, .scaled_rope = true},
      {.name = "f32_packed_as_bf16", .tied = false, .file = kF32, .packed = kBf16},
      {.name = "f16_packed_as_bf16_tied", .file = kF16, .packed = kBf16},
      {.name = "f32_with_kv_in_bf16", .tied = false, .file = kF32, .packed = kF32, .kv_dtype = KvType::kBf16},
      {.name = "f32_with_kv_in_f16", .tied = false, .file = kF32, .packed = kF32, .kv_dtype = KvType::kF16},
      {.name = "bf16_with_kv_in_f32_tied", .kv_dtype = KvType::kF32},
      {.name = "qwen2_bf16_tied", .heads = 6, .head_dim = 48, .architecture = "Qwen2ForCausalLM"},
      {.name = "qwen2_f32", .tied = false, .file = kF32, .packed = kF32, .architecture = "Qwen2ForCausalLM"},
      {.name = "qwen3_bf16_tied", .head_dim = 48, .architecture = "Qwen3ForCausalLM"},
      {.name = "qwen3_f32",
       .heads = 8,
       .tied = false,
       .file = kF32,
       .packed = kF32,
       .architecture = "Qwen3ForCausalLM"},
  };
}

/// The test prompt of tests/golden/cpu_logits/reference.py.
inline std::vector<TokenId> prompt(std::size_t length, std::uint32_t vocabulary = 97) {
  std::vector<TokenId> tokens;
  for (std::uint32_t i = 0; i < length; ++i) tokens.emplace_back((37 * i + 11) % vocabulary);
  return tokens;
}

/// A model written, loaded, with a cache and a forward pass.
class Computation {
 public:
  explicit Computation(const TinyModel& tiny, unsigned threads = 1, std::uint32_t block_size = 16,
                       std::uint32_t blocks = 64)
      : pool_(threads) {
    const auto written = write_model(tiny.config(), tiny.file, 5, folder_.path());
    EXPECT_TRUE(written) << written.error().message;
    const auto config = load_llama_config(folder_.path());
    EXPECT_TRUE(config) << config.error().message;
    const auto checkpoint = Checkpoint::open(folder_.path());
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    auto model = LlamaModel::load(*checkpoint, *config, tiny.packed, pool_);
    EXPECT_TRUE(model) << model.error().message;
    model_ = std::make_unique<LlamaModel>(std::move(*model));
    cache_ = std::make_unique<KvCache>(model_->config(), blocks, block_size, tiny.kv());
    forward_ = std::make_unique<ForwardPass>(*model_, *cache_, pool_, ForwardLimits{256, 256});
  }

  [[nodiscard]] const std::string& folder() const { return folder_.path(); }
  [[nodiscard]] const LlamaModel& model() const { return *model_; }
  [[nodiscard]] KvCache& cache() { return *cache_; }
  [[nodiscard]] ForwardPass& forward() { return *forward_; }

  /// Blocks [first, first + count) as a block table.
  static std::vector<kv::BlockId> blocks(std::uint32_t first, std::uint32_t count) {
    std::vector<kv::BlockId> out;
    for (std::uint32_t i = 0; i < count; ++i) out.emplace_back(first + i);
    return out;
  }

  /// Computes tokens [first, first + rows) of one sequence alone and returns the logits of each.
  std::vector<std::vector<float>> run(std::span<const TokenId> tokens, std::uint32_t first, std::uint32_t rows,
                                      std::span<const kv::BlockId> table) {
    const SequenceRows sequence{rows, first, table};
    std::vector<std::uint32_t> wanted(rows);
    std::iota(wanted.begin(), wanted.end(), 0U);
    const Logits logits = forward_->run({tokens.subspan(first, rows), {&sequence, 1}, wanted});
    std::vector<std::vector<float>> out;
    for (std::size_t i = 0; i < logits.rows(); ++i) out.emplace_back(logits.row(i).begin(), logits.row(i).end());
    return out;
  }

 private:
  ScratchFolder folder_;
  ThreadPool pool_;
  std::unique_ptr<LlamaModel> model_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<ForwardPass> forward_;
};

}  // namespace kvist::engine::cpu
