#include "kvist/engine/cpu/model_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/base/output_file.h"
#include "kvist/base/random.h"
#include "kvist/engine/cpu/bf16.h"

namespace kvist::engine::cpu {
namespace {

constexpr std::uint64_t kHeaderAlignment = 8;

struct PlannedTensor {
  std::string name;
  std::vector<std::uint64_t> shape;

  [[nodiscard]] std::uint64_t numbers() const {
    std::uint64_t n = 1;
    for (const std::uint64_t dimension : shape) n *= dimension;
    return n;
  }
};

std::vector<PlannedTensor> tensors_of(const LlamaConfig& config) {
  const std::uint64_t hidden = config.hidden_size;
  const std::uint64_t intermediate = config.intermediate_size;
  std::vector<PlannedTensor> out{{"model.embed_tokens.weight", {config.vocabulary, hidden}},
                                 {"model.norm.weight", {hidden}}};
  if (!config.tied_embeddings) out.push_back({"lm_head.weight", {config.vocabulary, hidden}});
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    const auto add = [&](std::string_view name, std::vector<std::uint64_t> shape, std::string_view kind = "weight") {
      out.push_back({fmt::format("model.layers.{}.{}.{}", layer, name, kind), std::move(shape)});
    };
    add("input_layernorm", {hidden});
    add("post_attention_layernorm", {hidden});
    add("self_attn.q_proj", {config.query_width(), hidden});
    add("self_attn.k_proj", {config.kv_width(), hidden});
    add("self_attn.v_proj", {config.kv_width(), hidden});
    add("self_attn.o_proj", {hidden, config.query_width()});
    if (config.qkv_bias) {
      add("self_attn.q_proj", {config.query_width()}, "bias");
      add("self_attn.k_proj", {config.kv_width()}, "bias");
      add("self_attn.v_proj", {config.kv_width()}, "bias");
    }
    if (config.qk_norm) {
      add("self_attn.q_norm", {config.head_dim});
      add("self_attn.k_norm", {config.head_dim});
    }
    add("mlp.gate_proj", {intermediate, hidden});
    add("mlp.up_proj", {intermediate, hidden});
    add("mlp.down_proj", {hidden, intermediate});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

std::string header_of(const std::vector<PlannedTensor>& tensors, DataType type) {
  JsonWriter json;
  json.begin_object();
  std::uint64_t offset = 0;
  for (const PlannedTensor& tensor : tensors) {
    json.key(tensor.name).begin_object().field("dtype", to_string(type)).key("shape").begin_array();
    for (const std::uint64_t dimension : tensor.shape) json.value(dimension);
    json.end_array().key("data_offsets").begin_array().value(offset);
    offset += tensor.numbers() * bytes_of(type);
    json.value(offset).end_array().end_object();
  }
  json.end_object();
  std::string header = json.take();
  while (header.size() % kHeaderAlignment != 0) header.push_back(' ');
  return header;
}

/// Approximately normal with variance 1, the same on every machine: the sum of four uniform 16-bit numbers, less its
/// mean, divided by its standard deviation. All but the last product is exact.
float random_number(RandomStream& random) {
  constexpr double kMean = 2 * 65535.0;
  constexpr double kDeviation = 37837.23;  // sqrt(4 (2^32 - 1) / 12)
  const std::uint64_t bits = random.next();
  const std::uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  return static_cast<float>((static_cast<double>(sum) - kMean) / kDeviation);
}

/// Rounds to the nearest F16. Random weights are never large, and tiny ones become zero.
std::uint16_t f16_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const auto exponent = static_cast<std::int32_t>(bits >> 23 & 0xffU) - 112;
  if (exponent <= 0) return sign;  // below 2^-14: zero
  const std::uint32_t rounded =
      (static_cast<std::uint32_t>(exponent) << 23 | (bits & 0x7fffffU)) + 0xfffU + (bits >> 13 & 1U);
  return static_cast<std::uint16_t>(sign | rounded >> 13);
}

template <class Number>
void append(std::string& out, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) out.push_back(static_cast<char>(number >> 8 * i & 0xff));
}

void append_number(std::string& out, float number, DataType type) {
  switch (type) {
    case DataType::kF32:
      return append(out, std::bit_cast<std::uint32_t>(number));
    case DataType::kF16:
      return append(out, f16_of_float(number));
    default:
      return append(out, bf16_of_float(number));
  }
}

void write_tensor(std::ofstream& file, const PlannedTensor& tensor, DataType type, std::uint64_t seed) {
  RandomStream random(mix_seed({seed, seed_part(tensor.name)}));
  const bool is_bias = tensor.name.ends_with(".bias");
  const bool is_norm = tensor.shape.size() == 1 && !is_bias;
  // Embeddings too: they serve as the output layer if tied, and the first norm rescales them.
  const double divisor = is_norm ? 100.0 : is_bias ? 4.0 : static_cast<double>(tensor.shape[1]);
  const auto scale = static_cast<float>(1 / std::sqrt(divisor));
  constexpr std::size_t kPiece = 1U << 16;
  std::string bytes;
  for (std::uint64_t i = 0; i < tensor.numbers(); ++i) {
    append_number(bytes, (is_norm ? 1.0F : 0.0F) + scale * random_number(random), type);
    if (bytes.size() < kPiece) continue;
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    bytes.clear();
  }
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string_view model_type_of(const LlamaConfig& config) {
  return config.qkv_bias ? "qwen2" : config.qk_norm ? "qwen3" : "llama";
}

std::string config_json(const LlamaConfig& config, DataType type) {
  JsonWriter json(2);
  json.begin_object();
  json.key("architectures").begin_array().value(config.architecture).end_array();
  json.field("attention_bias", false);
  if (config.begin_token) json.field("bos_token_id", *config.begin_token);
  json.key("eos_token_id").begin_array();
  for (const std::uint32_t token : config.end_tokens) json.value(token);
  json.end_array();
  json.field("head_dim", config.head_dim).field("hidden_act", "silu").field("hidden_size", config.hidden_size);
  json.field("intermediate_size", config.intermediate_size).field("max_position_embeddings", config.max_positions);
  json.field("mlp_bias", false).field("model_type", model_type_of(config)).field("num_attention_heads", config.heads);
  json.field("num_hidden_layers", config.layers).field("num_key_value_heads", config.kv_heads);
  json.field("rms_norm_eps", config.rms_norm_epsilon);
  if (config.rope_scaling) {
    json.key("rope_scaling").begin_object().field("rope_type", "llama3").field("factor", config.rope_scaling->factor);
    json.field("low_freq_factor", config.rope_scaling->low_frequency_factor);
    json.field("high_freq_factor", config.rope_scaling->high_frequency_factor);
    json.field("original_max_position_embeddings", config.rope_scaling->original_positions).end_object();
  }
  json.field("rope_theta", config.rope_theta).field("tie_word_embeddings", config.tied_embeddings);
  json.field("torch_dtype", type == DataType::kF32 ? "float32" : type == DataType::kF16 ? "float16" : "bfloat16");
  json.field("vocab_size", config.vocabulary).end_object();
  return json.take() + "\n";
}

std::string generation_json(const LlamaConfig& config) {
  JsonWriter json(2);
  json.begin_object();
  if (config.begin_token) json.field("bos_token_id", *config.begin_token);
  json.key("eos_token_id").begin_array();
  for (const std::uint32_t token : config.end_tokens) json.value(token);
  json.end_array().end_object();
  return json.take() + "\n";
}

Result<void> finish(std::ofstream& file, const std::filesystem::path& path) {
  file.close();
  if (file) return {};
  return fail(ErrorCode::kInternal, fmt::format("{}: cannot be written", path.string()));
}

}  // namespace

std::optional<ModelSize> model_size_of(std::string_view name) {
  if (name == "tiny") return ModelSize::kTiny;
  if (name == "small") return ModelSize::kSmall;
  if (name == "base") return ModelSize::kBase;
  return std::nullopt;
}

LlamaConfig config_of(ModelSize size, std::uint32_t vocabulary, std::uint32_t begin_token, std::uint32_t end_token) {
  LlamaConfig config;
  config.architecture = "LlamaForCausalLM";
  config.vocabulary = vocabulary;
  config.rms_norm_epsilon = 1e-5;
  config.rope_theta = 500000;
  config.tied_embeddings = true;
  config.begin_token = begin_token;
  config.end_tokens = {end_token};
  config.max_positions = 8192;
  switch (size) {
    case ModelSize::kTiny:
      config.hidden_size = 64, config.intermediate_size = 192, config.layers = 2;
      config.heads = 4, config.kv_heads = 2, config.head_dim = 16;
      break;
    case ModelSize::kSmall:
      config.hidden_size = 384, config.intermediate_size = 1152, config.layers = 9;
      config.heads = 6, config.kv_heads = 2, config.head_dim = 64;
      break;
    case ModelSize::kBase:
      config.hidden_size = 1024, config.intermediate_size = 3072, config.layers = 13;
      config.heads = 16, config.kv_heads = 4, config.head_dim = 64;
      break;
  }
  return config;
}

Result<void> write_model(const LlamaConfig& config, DataType type, std::uint64_t seed, const std::string& directory) {
  const std::filesystem::path folder(directory);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(ErrorCode::kInternal, fmt::format("{}: {}", directory, error.message()));

  const std::vector<PlannedTensor> tensors = tensors_of(config);
  const std::string header = header_of(tensors, type);
  const std::filesystem::path path = folder / "model.safetensors";
  std::ofstream file(path, std::ios::binary);
  std::string length;
  append(length, std::uint64_t{header.size()});
  file << length << header;
  for (const PlannedTensor& tensor : tensors) write_tensor(file, tensor, type, seed);
  KVIST_TRY_VOID(finish(file, path));
  KVIST_TRY_VOID(write_file(folder / "config.json", config_json(config, type)));
  KVIST_TRY_VOID(write_file(folder / "generation_config.json", generation_json(config)));
  return {};
}

}  // namespace kvist::engine::cpu
