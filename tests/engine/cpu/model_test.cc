// Model directories: written the same everywhere, loaded or refused with a reason, counted before they are loaded.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "engine/cpu/tiny_models.h"
#include "kvist/engine/cpu/memory_budget.h"

namespace kvist::engine::cpu::model_test {
namespace {

using testing::HasSubstr;

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// FNV-1a: any fixed function of the bytes will do.
std::uint64_t digest(const std::string& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

TEST(ModelWriter, WritesTheSameBytesForTheSameSeed) {
  const ScratchFolder folder;
  const LlamaConfig config = config_of(ModelSize::kTiny, 512, 0, 1);
  for (const char* name : {"a", "b"}) ASSERT_TRUE(write_model(config, DataType::kBf16, 7, folder.path() + "/" + name));
  ASSERT_TRUE(write_model(config, DataType::kBf16, 8, folder.path() + "/c"));
  for (const char* file : {"/config.json", "/generation_config.json", "/model.safetensors"}) {
    EXPECT_EQ(read_file(folder.path() + "/a" + file), read_file(folder.path() + "/b" + file));
  }
  const std::string weights = read_file(folder.path() + "/a/model.safetensors");
  EXPECT_NE(weights, read_file(folder.path() + "/c/model.safetensors"));
  EXPECT_EQ(digest(weights), 4509568401043123335U) << "the bytes of seed 7 have changed";
}

TEST(ModelWriter, WhatItWritesReadsBack) {
  for (const ModelSize size : {ModelSize::kTiny, ModelSize::kSmall}) {
    const ScratchFolder folder;
    const LlamaConfig config = config_of(size, 1000, 3, 4);
    ASSERT_TRUE(write_model(config, DataType::kBf16, 1, folder.path()));
    const auto read = load_llama_config(folder.path());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->parameters(), config.parameters());
    EXPECT_EQ(read->end_tokens, config.end_tokens);
    EXPECT_EQ(read->begin_token, config.begin_token);
    const auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_TRUE(checkpoint);
    EXPECT_EQ(default_weight_type(*checkpoint, *read), DataType::kBf16);
    ThreadPool pool(2);
    EXPECT_TRUE(LlamaModel::load(*checkpoint, *read, DataType::kBf16, pool));
  }
}

TEST(LlamaModel, RefusesACheckpointThatDoesNotMatchItsConfig) {
  const ScratchFolder folder;
  LlamaConfig config = config_of(ModelSize::kTiny, 100, 0, 1);
  ASSERT_TRUE(write_model(config, DataType::kF16, 1, folder.path()));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(default_weight_type(*checkpoint, config), DataType::kF32);
  ThreadPool pool(1);
  const auto error_of = [&](const LlamaConfig& changed) {
    return LlamaModel::load(*checkpoint, changed, DataType::kF32, pool).error().message;
  };
  LlamaConfig changed = config;
  changed.tied_embeddings = false;
  EXPECT_THAT(error_of(changed), HasSubstr("no tensor 'lm_head.weight', of shape [100, 64]"));
  changed = config;
  changed.layers = 3;
  EXPECT_THAT(error_of(changed), HasSubstr("no tensor 'model.layers.2."));
  changed = config;
  changed.intermediate_size = 100;
  EXPECT_THAT(error_of(changed),
              HasSubstr("'model.layers.0.mlp.gate_proj.weight': shape [192, 64], config.json says [100, 64]"));
  changed = config;
  changed.vocabulary = 1'000'000'000;
  EXPECT_THAT(error_of(changed), HasSubstr("shape [100, 64], config.json says [1000000000, 64]"));
}

TEST(MemoryBudget, CountsWhatLoadingAndComputingTake) {
  for (const TinyModel& tiny : tiny_models()) {
    Computation computation(tiny, 2);
    const LlamaModel& model = computation.model();
    std::uint64_t bytes = model.bytes_per_step() + 4 * model.final_norm().size();
    for (const LlamaLayer& layer : model.layers()) {
      bytes += 4 * (layer.attention_norm.size() + layer.mlp_norm.size() + layer.qkv_bias.size());
      bytes += 4 * (layer.query_norm.size() + layer.key_norm.size());
    }
    if (!tiny.tied) bytes += std::uint64_t{97} * tiny.hidden * bytes_of(tiny.packed);
    EXPECT_EQ(LlamaModel::bytes_for(tiny.config(), tiny.packed), bytes) << tiny.name;
    EXPECT_EQ(KvCache::bytes_per_block(tiny.config(), 16, tiny.kv()),
              computation.cache().block(kv::BlockId(0)).size_bytes());
  }
}

TEST(MemoryBudget, GivesTheBlocksWhatIsLeft) {
  const LlamaConfig config = config_of(ModelSize::kBase, 32000, 0, 1);
  MemoryRequest request;
  request.budget_bytes = 1U << 30;
  request.max_sequence_tokens = 2048;
  const auto budget = divide_memory(config, request);
  ASSERT_TRUE(budget) << budget.error().message;
  EXPECT_LE(budget->weight_bytes + budget->activation_bytes + budget->kv_bytes(), 1U << 30);
  EXPECT_GT(budget->weight_bytes + budget->activation_bytes + budget->kv_bytes() + budget->block_bytes, 1U << 30);
  EXPECT_EQ(budget->sequences(2048), budget->blocks / 128);
  EXPECT_EQ(budget->sequences(17), budget->blocks / 2);
  EXPECT_THAT(memory_table(*budget), HasSubstr("of a budget of 1.00 GiB"));
  EXPECT_THAT(memory_table(*budget), HasSubstr(" of 256 tokens, "));
  EXPECT_THAT(memory_table(*budget), HasSubstr(" of 2048 tokens\n"));
}

TEST(MemoryBudget, HalfAsManyBlocksFitInF32) {
  const LlamaConfig config = config_of(ModelSize::kBase, 32000, 0, 1);
  MemoryRequest request;
  request.budget_bytes = 1U << 30;
  request.max_sequence_tokens = 2048;
  const auto halves = divide_memory(config, request);
  request.kv = KvType::kF16;
  EXPECT_EQ(divide_memory(config, request)->blocks, halves->blocks);
  request.kv = KvType::kF32;
  const auto whole = divide_memory(config, request);
  ASSERT_TRUE(halves && whole);
  EXPECT_EQ(whole->block_bytes, 2 * halves->block_bytes);
  EXPECT_EQ(whole->blocks, halves->blocks / 2);
  EXPECT_THAT(memory_table(*halves), HasSubstr("tokens in BF16, "));
  EXPECT_THAT(memory_table(*whole), HasSubstr("tokens in F32, "));
}

TEST(MemoryBudget, RefusesWhatCannotFit) {
  LlamaConfig config = config_of(ModelSize::kBase, 128256, 0, 1);
  config.layers = 80;
  config.hidden_size = 8192;
  config.intermediate_size = 28672;
  MemoryRequest request;
  request.budget_bytes = std::uint64_t{16} << 30;
  const auto budget = divide_memory(config, request);
  ASSERT_FALSE(budget);
  EXPECT_EQ(budget.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(budget.error().message, HasSubstr("does not fit into 16.00 GiB"));
  request.block_size = 24;
  EXPECT_EQ(divide_memory(config, request).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvist::engine::cpu::model_test
