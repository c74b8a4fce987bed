#include "kvist/engine/cpu/llama_config.h"

#include <gmock/gmock.h>

#include "kvist/engine/cpu/rope.h"

namespace kvist::engine::cpu::llama_config_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Llama 3.2 1B, as published.
constexpr std::string_view kLlama = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000,
  "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
  "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
  "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0", "use_cache": true,
  "vocab_size": 128256})";

std::string with(std::string_view from, std::string_view to) {
  std::string text(kLlama);
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(LlamaConfig, ReadsAPublishedFile) {
  auto config = parse_llama_config(kLlama, "config.json");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->layers, 16U);
  EXPECT_EQ(config->group(), 4U);
  EXPECT_EQ(config->qkv_width(), 3072U);
  EXPECT_EQ(config->parameters(), 1235814400U);  // the published count
  EXPECT_TRUE(config->tied_embeddings);
  ASSERT_TRUE(config->rope_scaling);
  EXPECT_EQ(config->rope_scaling->factor, 32);
  ASSERT_TRUE(add_generation_config(R"({"eos_token_id":[128001,128008,128009]})", "generation_config.json", *config));
  EXPECT_THAT(config->end_tokens, ElementsAre(128001, 128008, 128009));
}

TEST(LlamaConfig, ReadsRopeParametersOfNewerFiles) {
  const auto config = parse_llama_config(
      with(R"("rope_theta": 500000.0)", R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e6})"), "c");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->rope_theta, 1e6);
}

TEST(LlamaConfig, RefusesByNameWhatIsNotSupported) {
  const std::pair<std::string, const char*> cases[] = {
      {with("LlamaForCausalLM", "GemmaForCausalLM"), "\"GemmaForCausalLM\""},
      {with("LlamaForCausalLM", "MistralForCausalLM"), "sliding_window"},
      {with("\"attention_bias\": false", "\"attention_bias\": true"), "attention_bias"},
      {with("\"mlp_bias\": false", "\"mlp_bias\": true"), "mlp_bias"},
      {with("\"use_cache\": true", "\"quantization_config\": {}"), "quantization_config"},
      {with("\"silu\"", "\"gelu\""), "\"gelu\""},
      {with("\"rope_type\": \"llama3\"", "\"rope_type\": \"yarn\""), "\"yarn\""},
      {with("\"rope_type\": \"llama3\"", "\"type\": \"linear\""), "\"linear\""},
      {with("\"pretraining_tp\": 1", "\"pretraining_tp\": 2"), "pretraining_tp"},
      {with("\"head_dim\": 64", "\"head_dim\": 40"), "head_dim"},
  };
  for (const auto& [text, message] : cases) {
    const auto config = parse_llama_config(text, "config.json");
    ASSERT_FALSE(config) << message;
    EXPECT_EQ(config.error().code, ErrorCode::kUnsupported) << config.error().message;
    EXPECT_THAT(config.error().message, HasSubstr(message));
  }
  EXPECT_TRUE(parse_llama_config(
      R"({"architectures":["MistralForCausalLM"],"sliding_window":null,"hidden_size":64,"intermediate_size":64,)"
      R"("num_hidden_layers":1,"num_attention_heads":4,"vocab_size":10,"max_position_embeddings":32,)"
      R"("rms_norm_eps":1e-5})",
      "config.json"));
}

/// Qwen2.5 0.5B, as published, or with one part replaced.
std::string qwen(std::string_view from = "", std::string_view to = "") {
  std::string json = R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
    "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
    "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2",
    "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "transformers_version": "4.43.1", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";
  if (!from.empty()) json.replace(json.find(from), from.size(), to);
  return json;
}

TEST(LlamaConfig, ReadsQwen2WithItsBiases) {
  const auto config = parse_llama_config(qwen(), "config.json");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->qk_norm);
  EXPECT_EQ(config->head_dim, 64U);
  EXPECT_EQ(config->parameters(), 494032768U);  // the published count
}

TEST(LlamaConfig, ReadsQwen3WithItsHeadNorms) {
  // Qwen3 0.6B: heads are wider than hidden_size / heads.
  const auto config = parse_llama_config(
      R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "bos_token_id": 151643, "eos_token_id": 151645,
      "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072, "max_window_layers": 28,
      "max_position_embeddings": 40960, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
      "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
      "sliding_window": null, "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936})",
      "config.json");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->qkv_bias);
  EXPECT_TRUE(config->qk_norm);
  EXPECT_EQ(config->parameters(), 596049920U);  // the published count
}

TEST(LlamaConfig, RefusesWhatQwenWouldComputeDifferently) {
  const std::pair<std::string, const char*> cases[] = {
      {qwen("\"use_sliding_window\": false", "\"use_sliding_window\": true"), "use_sliding_window"},
      {qwen("\"use_cache\": true", R"("layer_types": ["full_attention", "sliding_attention"])"),
       "\"sliding_attention\""},
      {qwen("\"use_cache\": true", R"("rope_scaling": {"type": "yarn", "factor": 4.0})"), "\"yarn\""},
      {qwen("\"silu\"", "\"gelu\""), "\"gelu\""},
      {qwen("\"use_cache\": true", R"("attention_bias": true)"), "attention_bias"},
  };
  for (const auto& [json, expected] : cases) {
    const auto config = parse_llama_config(json, "config.json");
    ASSERT_FALSE(config) << expected;
    EXPECT_EQ(config.error().code, ErrorCode::kUnsupported) << config.error().message;
    EXPECT_THAT(config.error().message, HasSubstr(expected));
  }
  EXPECT_TRUE(parse_llama_config(qwen("\"use_cache\": true", R"("layer_types": ["full_attention"])"), "config.json"));
}

TEST(LlamaConfig, RefusesBrokenFilesNamingTheKey) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "not valid JSON"},
      {"[]", "expected an object"},
      {"{}", "architectures"},
      {with("\"hidden_size\": 2048", "\"hidden_size\": 0"), "hidden_size"},
      {with("\"hidden_size\": 2048", "\"hidden_size\": 1e9"), "hidden_size"},
      {with("\"hidden_size\": 2048", "\"hidden_size\": 99999999999"), "hidden_size"},
      {with("\"hidden_size\": 2048", "\"hidden_size\": 2048, \"hidden_size\": 2048"),
       "hidden_size: given more than once"},
      {with("\"num_key_value_heads\": 8", "\"num_key_value_heads\": 5"), "does not divide"},
      {with("\"rms_norm_eps\": 1e-05,", ""), "rms_norm_eps: required, but missing"},
      {with("\"eos_token_id\": 128001", "\"eos_token_id\": 128256"), "not below vocab_size"},
      {with("\"eos_token_id\": 128001", "\"eos_token_id\": \"x\""), "eos_token_id: expected an integer"},
      {with("\"high_freq_factor\": 4.0", "\"high_freq_factor\": 1.0"), "greater than low_freq_factor"},
      {with("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": 1"), "true or false"},
  };
  for (const auto& [text, message] : cases) {
    const auto config = parse_llama_config(text, "config.json");
    ASSERT_FALSE(config) << message;
    EXPECT_EQ(config.error().code, ErrorCode::kCorrupt) << config.error().message;
    EXPECT_THAT(config.error().message, HasSubstr(message));
  }
  EXPECT_EQ(parse_llama_config(std::string(2 << 20, ' '), "config.json").error().code, ErrorCode::kTooLarge);
}

TEST(Rope, Llama3ScalingKeepsShortWavelengthsAndStretchesLongOnes) {
  LlamaConfig config = *parse_llama_config(kLlama, "c");
  const std::vector<double> scaled = rope_frequencies(config);
  config.rope_scaling.reset();
  const std::vector<double> plain = rope_frequencies(config);
  ASSERT_EQ(scaled.size(), 32U);
  EXPECT_EQ(plain[0], 1);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_DOUBLE_EQ(scaled[31], plain[31] / 32);
  // Wavelength 3867 lies between 8192 / 4 and 8192: pair 15.66; pair 16 has 4442.9.
  const double smooth = (8192 / (2 * M_PI / plain[16]) - 1) / 3;
  EXPECT_DOUBLE_EQ(scaled[16], (1 - smooth) * plain[16] / 32 + smooth * plain[16]);
  for (std::size_t i = 1; i < 32; ++i) EXPECT_LT(scaled[i], scaled[i - 1]);
}

}  // namespace
}  // namespace kvist::engine::cpu::llama_config_test
