#include "kvist/engine/cpu/llama_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "kvist/engine/cpu/mapped_file.h"

namespace kvist::engine::cpu {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t kMaxConfigBytes = 1U << 20;
constexpr std::uint64_t kMaxEndTokens = 64;
constexpr std::string_view kMistral = "MistralForCausalLM";
constexpr std::string_view kQwen2 = "Qwen2ForCausalLM";
constexpr std::string_view kQwen3 = "Qwen3ForCausalLM";
constexpr std::array<std::string_view, 4> kArchitectures{"LlamaForCausalLM", kMistral, kQwen2, kQwen3};

/// One object of the file, read field by field with messages that name the key. A key given twice is refused.
class Fields {
 public:
  Fields(object fields, std::string path) : fields_(fields), path_(std::move(path)) {}

  [[nodiscard]] std::unexpected<Error> wrong(ErrorCode code, std::string_view key, std::string_view what) const {
    return fail(code, fmt::format("{}: {}: {}", path_, key, what));
  }
  [[nodiscard]] std::unexpected<Error> corrupt(std::string_view key, std::string_view what) const {
    return wrong(ErrorCode::kCorrupt, key, what);
  }
  [[nodiscard]] std::unexpected<Error> unsupported(std::string_view key, std::string_view what) const {
    return wrong(ErrorCode::kUnsupported, key, what);
  }

  /// The value of a key; nothing if it is absent or null.
  [[nodiscard]] Result<std::optional<element>> find(std::string_view key) const {
    std::optional<element> found;
    for (const auto field : fields_) {
      if (field.key != key) continue;
      if (found) return corrupt(key, "given twice");
      found = field.value;
    }
    if (found && found->is_null()) found.reset();
    return found;
  }
  /// Whether the key is there, null or not.
  [[nodiscard]] bool names(std::string_view key) const {
    return std::ranges::any_of(fields_, [&](const auto field) { return field.key == key; });
  }

  [[nodiscard]] Result<std::optional<std::uint32_t>> find_integer(std::string_view key, std::uint32_t low,
                                                                  std::uint32_t high) const {
    KVIST_TRY(const auto value, find(key));
    if (!value) return std::nullopt;
    std::uint64_t n = 0;
    if (value->get(n) != SUCCESS || n < low || n > high) {
      return corrupt(key, fmt::format("expected a whole number from {} to {}", low, high));
    }
    return static_cast<std::uint32_t>(n);
  }
  [[nodiscard]] Result<std::uint32_t> integer(std::string_view key, std::uint32_t low, std::uint32_t high) const {
    KVIST_TRY(const auto value, find_integer(key, low, high));
    if (!value) return corrupt(key, fmt::format("missing: expected a whole number from {} to {}", low, high));
    return *value;
  }
  [[nodiscard]] Result<std::optional<double>> find_number(std::string_view key, double low, double high) const {
    KVIST_TRY(const auto value, find(key));
    if (!value) return std::nullopt;
    double x = 0;
    if (value->get(x) != SUCCESS || !(x >= low && x <= high)) {
      return corrupt(key, fmt::format("expected a number from {} to {}", low, high));
    }
    return x;
  }
  [[nodiscard]] Result<double> number(std::string_view key, double low, double high) const {
    KVIST_TRY(const auto value, find_number(key, low, high));
    if (!value) return corrupt(key, fmt::format("missing: expected a number from {} to {}", low, high));
    return *value;
  }
  [[nodiscard]] Result<bool> flag(std::string_view key, bool otherwise) const {
    KVIST_TRY(const auto value, find(key));
    if (!value) return otherwise;
    bool b = false;
    if (value->get(b) != SUCCESS) return corrupt(key, "expected true or false");
    return b;
  }
  [[nodiscard]] Result<std::optional<std::string>> find_string(std::string_view key) const {
    KVIST_TRY(const auto value, find(key));
    if (!value) return std::nullopt;
    std::string_view text;
    if (value->get(text) != SUCCESS) return corrupt(key, "expected a string");
    return std::string(text.substr(0, 200));
  }
  [[nodiscard]] Result<std::optional<Fields>> find_object(std::string_view key) const {
    KVIST_TRY(const auto value, find(key));
    if (!value) return std::nullopt;
    object inner;
    if (value->get(inner) != SUCCESS) return corrupt(key, "expected an object");
    return Fields(inner, fmt::format("{}: {}", path_, key));
  }
  /// One whole number or a list of them.
  [[nodiscard]] Result<std::vector<std::uint32_t>> tokens(std::string_view key) const {
    constexpr std::string_view kExpected = "expected a token id or a list of at most 64";
    KVIST_TRY(const auto value, find(key));
    std::vector<std::uint32_t> out;
    if (!value) return out;
    const auto add = [&](element item) {
      std::uint64_t n = 0;
      if (item.get(n) != SUCCESS || n > 0xffffffffU || out.size() == kMaxEndTokens) return false;
      out.push_back(static_cast<std::uint32_t>(n));
      return true;
    };
    simdjson::dom::array list;
    if (value->get(list) != SUCCESS) {
      if (!add(*value)) return corrupt(key, kExpected);
      return out;
    }
    for (const element item : list) {
      if (!add(item)) return corrupt(key, kExpected);
    }
    return out;
  }

 private:
  object fields_;
  std::string path_;
};

/// A parsed file: values live as long as the parser.
struct Document {
  simdjson::dom::parser parser{kMaxConfigBytes};

  Result<Fields> parse(std::string_view json, std::string_view name) {
    if (json.size() > kMaxConfigBytes) {
      return fail(ErrorCode::kCorrupt, fmt::format("{}: larger than {} bytes", name, kMaxConfigBytes));
    }
    const simdjson::padded_string text(json);
    object root;
    if (const auto code = parser.parse(text).get(root); code != SUCCESS) {
      return fail(ErrorCode::kCorrupt, fmt::format("{}: no JSON object: {}", name, simdjson::error_message(code)));
    }
    return Fields(root, std::string(name));
  }
};

Result<std::string> read_architecture(const Fields& file) {
  KVIST_TRY(const auto value, file.find("architectures"));
  simdjson::dom::array list;
  std::string_view name;
  if (!value || value->get(list) != SUCCESS || list.size() != 1 || list.at(0).get(name) != SUCCESS) {
    return file.corrupt("architectures", "expected a list of one name");
  }
  if (std::ranges::find(kArchitectures, name) == kArchitectures.end()) {
    return file.unsupported(
        "architectures", fmt::format("'{}'; {} are supported", name.substr(0, 100), fmt::join(kArchitectures, ", ")));
  }
  return std::string(name);
}

/// Refuses sliding-window attention.
Result<void> refuse_windows(const Fields& file, const LlamaConfig& config) {
  KVIST_TRY(const auto window, file.find_integer("sliding_window", 1, 1U << 30));
  if (config.architecture == kMistral) {
    // MistralConfig's own default is a window of 4096: the key must be there, and null.
    const bool has_window = window || !file.names("sliding_window");
    if (has_window && window.value_or(4096) < config.max_positions) {
      return file.unsupported("sliding_window",
                              "sliding windows are not supported; null or max_position_embeddings are");
    }
  }
  if (config.architecture != kQwen2 && config.architecture != kQwen3) return {};
  // Qwen configs give sliding_window a number even if it is off.
  KVIST_TRY(const bool used, file.flag("use_sliding_window", false));
  if (used) return file.unsupported("use_sliding_window", "sliding windows are not supported");
  KVIST_TRY(const auto types, file.find("layer_types"));
  if (!types) return {};
  simdjson::dom::array list;
  if (types->get(list) != SUCCESS) return file.corrupt("layer_types", "expected a list of names");
  for (const element item : list) {
    std::string_view type;
    if (item.get(type) != SUCCESS) return file.corrupt("layer_types", "expected a list of names");
    if (type != "full_attention") {
      return file.unsupported("layer_types", fmt::format("'{}'; full_attention is supported", type.substr(0, 100)));
    }
  }
  return {};
}

/// Refuses options that change the computation and are not supported.
Result<void> refuse_unsupported(const Fields& file, const LlamaConfig& config) {
  for (const std::string_view key : {"attention_bias", "mlp_bias"}) {
    KVIST_TRY(const bool on, file.flag(key, false));
    if (on) return file.unsupported(key, "biases are not supported");
  }
  for (const std::string_view key : {"quantization_config", "compression_config"}) {
    KVIST_TRY(const auto value, file.find(key));
    if (value) return file.unsupported(key, "quantized checkpoints are not supported; take one in BF16, F16 or F32");
  }
  KVIST_TRY(const auto activation, file.find_string("hidden_act"));
  if (activation.value_or("silu") != "silu") {
    return file.unsupported("hidden_act", fmt::format("'{}'; silu is supported", *activation));
  }
  KVIST_TRY(const auto parts, file.find_integer("pretraining_tp", 0, 1U << 20));
  if (parts.value_or(1) > 1) return file.unsupported("pretraining_tp", "only 1 is supported");
  return refuse_windows(file, config);
}

Result<Llama3RopeScaling> read_llama3_scaling(const Fields& rope) {
  Llama3RopeScaling scaling;
  KVIST_TRY(scaling.factor, rope.number("factor", 1, 1e6));
  KVIST_TRY(scaling.low_frequency_factor, rope.number("low_freq_factor", 1e-6, 1e6));
  KVIST_TRY(scaling.high_frequency_factor, rope.number("high_freq_factor", 1e-6, 1e6));
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    return rope.corrupt("high_freq_factor", "must be greater than low_freq_factor");
  }
  KVIST_TRY(scaling.original_positions, rope.integer("original_max_position_embeddings", 1, 1U << 30));
  return scaling;
}

/// Reads rope_theta and rope_scaling, or rope_parameters, which holds both in newer files.
Result<void> read_rope(const Fields& file, LlamaConfig& config) {
  KVIST_TRY(const auto theta, file.find_number("rope_theta", 1, 1e12));
  config.rope_theta = theta.value_or(10000.0);
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    KVIST_TRY(const auto rope, file.find_object(key));
    if (!rope) continue;
    KVIST_TRY(const auto inner_theta, rope->find_number("rope_theta", 1, 1e12));
    if (inner_theta) config.rope_theta = *inner_theta;
    KVIST_TRY(auto type, rope->find_string("rope_type"));
    if (!type) {
      KVIST_TRY(type, rope->find_string("type"));
    }
    if (!type) return rope->corrupt("rope_type", "missing: expected 'llama3' or 'default'");
    if (*type == "llama3") {
      KVIST_TRY(config.rope_scaling, read_llama3_scaling(*rope));
    } else if (*type != "default") {
      return rope->unsupported("rope_type", fmt::format("'{}'; llama3 and default are supported", *type));
    }
  }
  return {};
}

Result<void> read_heads(const Fields& file, LlamaConfig& config) {
  KVIST_TRY(config.heads, file.integer("num_attention_heads", 1, 1024));
  KVIST_TRY(const auto kv_heads, file.find_integer("num_key_value_heads", 1, 1024));
  config.kv_heads = kv_heads.value_or(config.heads);
  if (config.heads % config.kv_heads != 0) {
    return file.corrupt("num_key_value_heads",
                        fmt::format("{} does not divide num_attention_heads {}", config.kv_heads, config.heads));
  }
  KVIST_TRY(const auto head_dim, file.find_integer("head_dim", 1, 1024));
  const bool own_default = config.architecture == kQwen3;  // Qwen3Config's
  if (!head_dim && !own_default && config.hidden_size % config.heads != 0) {
    return file.corrupt("num_attention_heads", "does not divide hidden_size, and head_dim is not given");
  }
  config.head_dim = head_dim.value_or(own_default ? 128 : config.hidden_size / config.heads);
  if (config.head_dim % kHeadDimStep != 0 || config.head_dim > 512) {
    return file.unsupported("head_dim",
                            fmt::format("{}; multiples of {} up to 512 are supported", config.head_dim, kHeadDimStep));
  }
  return {};
}

Result<void> check_tokens(const Fields& file, const LlamaConfig& config) {
  for (const std::uint32_t token : config.end_tokens) {
    if (token >= config.vocabulary) {
      return file.corrupt("eos_token_id", fmt::format("{} is not below vocab_size {}", token, config.vocabulary));
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
  Document document;
  KVIST_TRY(const Fields file, document.parse(json, name));
  LlamaConfig config;
  KVIST_TRY(config.architecture, read_architecture(file));
  config.qkv_bias = config.architecture == kQwen2;
  config.qk_norm = config.architecture == kQwen3;
  // The bounds are far above the largest published models (16384 hidden, 126 layers, 256k vocabulary).
  KVIST_TRY(config.hidden_size, file.integer("hidden_size", 1, 1U << 17));
  KVIST_TRY(config.intermediate_size, file.integer("intermediate_size", 1, 1U << 19));
  KVIST_TRY(config.layers, file.integer("num_hidden_layers", 1, 1024));
  KVIST_TRY(config.vocabulary, file.integer("vocab_size", 1, 1U << 22));
  KVIST_TRY(config.max_positions, file.integer("max_position_embeddings", 1, 1U << 24));
  KVIST_TRY(config.rms_norm_epsilon, file.number("rms_norm_eps", 0, 1));
  KVIST_TRY_VOID(read_heads(file, config));
  KVIST_TRY_VOID(read_rope(file, config));
  KVIST_TRY(config.tied_embeddings, file.flag("tie_word_embeddings", false));
  KVIST_TRY_VOID(refuse_unsupported(file, config));
  KVIST_TRY(config.begin_token, file.find_integer("bos_token_id", 0, config.vocabulary - 1));
  KVIST_TRY(config.end_tokens, file.tokens("eos_token_id"));
  KVIST_TRY_VOID(check_tokens(file, config));
  sort_unique(config.end_tokens);
  return config;
}

Result<void> add_generation_config(std::string_view json, std::string_view name, LlamaConfig& config) {
  Document document;
  KVIST_TRY(const Fields file, document.parse(json, name));
  KVIST_TRY(const std::vector<std::uint32_t> tokens, file.tokens("eos_token_id"));
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
