#include "kvist/engine/cpu/llama_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/engine/cpu/mapped_file.h"

namespace kvist::engine::cpu {
namespace {

constexpr std::size_t kMaxConfigBytes = 1U << 20;
constexpr std::size_t kMaxEndTokens = 64;
constexpr std::string_view kMistral = "MistralForCausalLM";
constexpr std::string_view kQwen2 = "Qwen2ForCausalLM";
constexpr std::string_view kQwen3 = "Qwen3ForCausalLM";
constexpr std::array<std::string_view, 4> kArchitectures{"LlamaForCausalLM", kMistral, kQwen2, kQwen3};

Result<std::optional<std::uint32_t>> find_integer(const JsonObject& file, std::string_view key, std::uint32_t low,
                                                  std::uint32_t high) {
  KVIST_TRY(const std::optional<std::uint64_t> number, file.find_unsigned(key, low, high));
  if (!number) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

Result<std::uint32_t> integer(const JsonObject& file, std::string_view key, std::uint32_t low, std::uint32_t high) {
  KVIST_TRY(const std::uint64_t number, file.require_unsigned(key, low, high));
  return static_cast<std::uint32_t>(number);
}

/// One whole number or a list of them.
Result<std::vector<std::uint32_t>> tokens(const JsonObject& file, std::string_view key) {
  KVIST_TRY(const std::optional<JsonValue> value, file.find(key));
  std::vector<std::uint32_t> out;
  if (!value) return out;
  const auto add = [&out](const JsonValue& item) -> Result<void> {
    KVIST_TRY(const std::uint64_t token, item.as_unsigned(0, 0xffffffffU));
    out.push_back(static_cast<std::uint32_t>(token));
    return {};
  };
  const std::optional<JsonArray> list = value->if_array();
  if (!list) {
    KVIST_TRY_VOID(add(*value));
    return out;
  }
  if (list->size() > kMaxEndTokens) return value->wrong(fmt::format("more than {} tokens", kMaxEndTokens));
  for (const JsonValue item : *list) KVIST_TRY_VOID(add(item));
  return out;
}

JsonDocument config_document(std::string_view name) {
  return JsonDocument({.name = std::string(name), .most_bytes = kMaxConfigBytes});
}

Result<std::string> read_architecture(const JsonObject& file) {
  KVIST_TRY(const JsonArray list, file.require_array("architectures", "an array of one name"));
  if (list.size() != 1) return list.value().expected("an array of one name");
  KVIST_TRY(const std::string_view name, (*list.begin()).as_string());
  if (std::ranges::find(kArchitectures, name) == kArchitectures.end()) {
    return list.value().unsupported(
        fmt::format("{}; {} are supported", in_quotes(name), fmt::join(kArchitectures, ", ")));
  }
  return std::string(name);
}

/// Refuses sliding-window attention.
Result<void> refuse_windows(const JsonObject& file, const LlamaConfig& config) {
  KVIST_TRY(const auto window, find_integer(file, "sliding_window", 1, 1U << 30));
  if (config.architecture == kMistral) {
    // MistralConfig's own default is a window of 4096: the key must be there, and null.
    const bool has_window = window || !file.has("sliding_window");
    if (has_window && window.value_or(4096) < config.max_positions) {
      return file.error(ErrorCode::kUnsupported, "sliding_window",
                        "sliding windows are not supported; null or max_position_embeddings are");
    }
  }
  if (config.architecture != kQwen2 && config.architecture != kQwen3) return {};
  // Qwen configs give sliding_window a number even if it is off.
  KVIST_TRY(const bool used, file.bool_or("use_sliding_window", false));
  if (used) return file.error(ErrorCode::kUnsupported, "use_sliding_window", "sliding windows are not supported");
  KVIST_TRY(const auto types, file.find_array("layer_types", "an array of names"));
  if (!types) return {};
  for (const JsonValue item : *types) {
    KVIST_TRY(const std::string_view type, item.as_string());
    if (type != "full_attention") {
      return item.unsupported(fmt::format("{}; full_attention is supported", in_quotes(type)));
    }
  }
  return {};
}

/// Refuses options that change the computation and are not supported.
Result<void> refuse_unsupported(const JsonObject& file, const LlamaConfig& config) {
  for (const std::string_view key : {"attention_bias", "mlp_bias"}) {
    KVIST_TRY(const bool on, file.bool_or(key, false));
    if (on) return file.error(ErrorCode::kUnsupported, key, "biases are not supported");
  }
  for (const std::string_view key : {"quantization_config", "compression_config"}) {
    KVIST_TRY(const auto value, file.find(key));
    if (value)
      return file.error(ErrorCode::kUnsupported, key,
                        "quantized checkpoints are not supported; take one in BF16, F16 or F32");
  }
  KVIST_TRY(const auto activation, file.find_string("hidden_act"));
  if (activation.value_or("silu") != "silu") {
    return file.error(ErrorCode::kUnsupported, "hidden_act",
                      fmt::format("{}; silu is supported", in_quotes(*activation)));
  }
  KVIST_TRY(const auto parts, find_integer(file, "pretraining_tp", 0, 1U << 20));
  if (parts.value_or(1) > 1) return file.error(ErrorCode::kUnsupported, "pretraining_tp", "only 1 is supported");
  return refuse_windows(file, config);
}

Result<Llama3RopeScaling> read_llama3_scaling(const JsonObject& rope) {
  Llama3RopeScaling scaling;
  KVIST_TRY(scaling.factor, rope.require_double("factor", 1, 1e6));
  KVIST_TRY(scaling.low_frequency_factor, rope.require_double("low_freq_factor", 1e-6, 1e6));
  KVIST_TRY(scaling.high_frequency_factor, rope.require_double("high_freq_factor", 1e-6, 1e6));
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    return rope.wrong("high_freq_factor", "must be greater than low_freq_factor");
  }
  KVIST_TRY(scaling.original_positions, integer(rope, "original_max_position_embeddings", 1, 1U << 30));
  return scaling;
}

/// Reads rope_theta and rope_scaling, or rope_parameters, which holds both in newer files.
Result<void> read_rope(const JsonObject& file, LlamaConfig& config) {
  KVIST_TRY(const auto theta, file.find_double("rope_theta", 1, 1e12));
  config.rope_theta = theta.value_or(10000.0);
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    KVIST_TRY(const auto rope, file.find_object(key));
    if (!rope) continue;
    KVIST_TRY(const auto inner_theta, rope->find_double("rope_theta", 1, 1e12));
    if (inner_theta) config.rope_theta = *inner_theta;
    KVIST_TRY(auto type, rope->find_string("rope_type"));
    if (!type) {
      KVIST_TRY(type, rope->find_string("type"));
    }
    if (!type) return rope->wrong("rope_type", "missing: expected \"llama3\" or \"default\"");
    if (*type == "llama3") {
      KVIST_TRY(config.rope_scaling, read_llama3_scaling(*rope));
    } else if (*type != "default") {
      return rope->error(ErrorCode::kUnsupported, "rope_type",
                         fmt::format("{}; llama3 and default are supported", in_quotes(*type)));
    }
  }
  return {};
}

Result<void> read_heads(const JsonObject& file, LlamaConfig& config) {
  KVIST_TRY(config.heads, integer(file, "num_attention_heads", 1, 1024));
  KVIST_TRY(const auto kv_heads, find_integer(file, "num_key_value_heads", 1, 1024));
  config.kv_heads = kv_heads.value_or(config.heads);
  if (config.heads % config.kv_heads != 0) {
    return file.wrong("num_key_value_heads",
                      fmt::format("{} does not divide num_attention_heads {}", config.kv_heads, config.heads));
  }
  KVIST_TRY(const auto head_dim, find_integer(file, "head_dim", 1, 1024));
  const bool own_default = config.architecture == kQwen3;  // Qwen3Config's
  if (!head_dim && !own_default && config.hidden_size % config.heads != 0) {
    return file.wrong("num_attention_heads", "does not divide hidden_size, and head_dim is not given");
  }
  config.head_dim = head_dim.value_or(own_default ? 128 : config.hidden_size / config.heads);
  if (config.head_dim % kHeadDimStep != 0 || config.head_dim > 512) {
    return file.error(ErrorCode::kUnsupported, "head_dim",
                      fmt::format("{}; multiples of {} up to 512 are supported", config.head_dim, kHeadDimStep));
  }
  return {};
}

Result<void> check_tokens(const JsonObject& file, const LlamaConfig& config) {
  for (const std::uint32_t token : config.end_tokens) {
    if (token >= config.vocabulary) {
      return file.wrong("eos_token_id", fmt::format("{} is not below vocab_size {}", token, config.vocabulary));
    }
  }
  return {};
}

void sort_unique(std::vector<std::uint32_t>& tokens) {
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

std::uint64_t LlamaConfig::parameters() const {
  const std::uint64_t hidden = hidden_size;
  const std::uint64_t attention = hidden * qkv_width() + query_width() * hidden + (qkv_bias ? qkv_width() : 0) +
                                  (qk_norm ? 2 * std::uint64_t{head_dim} : 0);
  const std::uint64_t mlp = 3 * hidden * intermediate_size;
  const std::uint64_t embeddings = (tied_embeddings ? 1 : 2) * hidden * vocabulary;
  return layers * (attention + mlp + 2 * hidden) + hidden + embeddings;
}

Result<LlamaConfig> parse_llama_config(std::string_view json, std::string_view name) {
  JsonDocument document = config_document(name);
  KVIST_TRY(const JsonObject file, document.parse_object(json));
  LlamaConfig config;
  KVIST_TRY(config.architecture, read_architecture(file));
  config.qkv_bias = config.architecture == kQwen2;
  config.qk_norm = config.architecture == kQwen3;
  // The bounds are far above the largest published models (16384 hidden, 126 layers, 256k vocabulary).
  KVIST_TRY(config.hidden_size, integer(file, "hidden_size", 1, 1U << 17));
  KVIST_TRY(config.intermediate_size, integer(file, "intermediate_size", 1, 1U << 19));
  KVIST_TRY(config.layers, integer(file, "num_hidden_layers", 1, 1024));
  KVIST_TRY(config.vocabulary, integer(file, "vocab_size", 1, 1U << 22));
  KVIST_TRY(config.max_positions, integer(file, "max_position_embeddings", 1, 1U << 24));
  KVIST_TRY(config.rms_norm_epsilon, file.require_double("rms_norm_eps", 0, 1));
  KVIST_TRY_VOID(read_heads(file, config));
  KVIST_TRY_VOID(read_rope(file, config));
  KVIST_TRY(config.tied_embeddings, file.bool_or("tie_word_embeddings", false));
  KVIST_TRY_VOID(refuse_unsupported(file, config));
  KVIST_TRY(config.begin_token, find_integer(file, "bos_token_id", 0, config.vocabulary - 1));
  KVIST_TRY(config.end_tokens, tokens(file, "eos_token_id"));
  KVIST_TRY_VOID(check_tokens(file, config));
  sort_unique(config.end_tokens);
  return config;
}

Result<void> add_generation_config(std::string_view json, std::string_view name, LlamaConfig& config) {
  JsonDocument document = config_document(name);
  KVIST_TRY(const JsonObject file, document.parse_object(json));
  KVIST_TRY(const std::vector<std::uint32_t> tokens, tokens(file, "eos_token_id"));
  config.end_tokens.insert(config.end_tokens.end(), tokens.begin(), tokens.end());
  KVIST_TRY_VOID(check_tokens(file, config));
  sort_unique(config.end_tokens);
  return {};
}

Result<LlamaConfig> load_llama_config(const std::string& directory) {
  const std::filesystem::path folder(directory);
  KVIST_TRY(const MappedFile file, MappedFile::open((folder / "config.json").string()));
  KVIST_TRY(LlamaConfig config, parse_llama_config(text_of(file), "config.json"));
  const std::string generation = (folder / "generation_config.json").string();
  if (std::filesystem::exists(generation)) {
    KVIST_TRY(const MappedFile more, MappedFile::open(generation));
    KVIST_TRY_VOID(add_generation_config(text_of(more), "generation_config.json", config));
  }
  return config;
}

}  // namespace kvist::engine::cpu
