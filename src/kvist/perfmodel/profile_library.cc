#include "kvist/perfmodel/profile_library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/closest_name.h"
#include "kvist/base/yaml.h"
#include "kvist/perfmodel/fact_reading.h"

namespace kvist::perfmodel {
namespace {

/// Reads one fact into a member and keeps it with its origin.
Result<void> read_fact(const YamlNode& facts, std::string_view name, std::string_view unit, std::string_view meaning,
                       double low, double high, double& value, std::vector<Fact>& kept) {
  KVIST_TRY(const YamlNode node, facts.require(name));
  KVIST_TRY(Entry entry, read_entry(node, unit, low, high));
  value = entry.value;
  kept.push_back({.name = std::string(name),
                  .value = entry.value,
                  .unit = std::string(unit),
                  .meaning = std::string(meaning),
                  .origin = std::move(entry.origin)});
  return {};
}

template <class Part>
Result<const Part*> find_part(const std::map<std::string, Part, std::less<>>& parts, std::string_view name,
                              std::string_view what) {
  if (const auto found = parts.find(name); found != parts.end()) return &found->second;
  std::string known;
  for (const auto& [other, part] : parts) known.append(known.empty() ? "" : ", ").append(other);
  return fail(ErrorCode::kNotFound, fmt::format("unknown {} \"{}\"; there is a profile of: {}", what, name, known));
}

}  // namespace

Result<GpuFacts> parse_gpu(std::string_view text, const std::string& name) {
  KVIST_TRY(const YamlNode root, YamlNode::parse(text, name));
  GpuFacts g;
  KVIST_TRY(const YamlNode own_name, root.require("gpu"));
  KVIST_TRY(g.name, read_part_name(own_name));
  KVIST_TRY(const YamlNode title, root.require("title"));
  KVIST_TRY(g.title, title.as_string());
  KVIST_TRY(const YamlNode f, root.require("facts"));
  KVIST_TRY_VOID(root.finish());
  KVIST_TRY_VOID(read_fact(f, "memory", "B", "device memory as CUDA reports it", 1e9, 1e13, g.memory_bytes, g.facts));
  KVIST_TRY_VOID(
      read_fact(f, "nominal_memory", "B", "device memory as it is sold", 1e9, 1e13, g.nominal_memory_bytes, g.facts));
  KVIST_TRY_VOID(read_fact(f, "bandwidth", "B/s", "peak of the device memory", 1e10, 1e15, g.bandwidth, g.facts));
  KVIST_TRY_VOID(read_fact(f, "fp8_flops", "FLOP/s", "peak of FP8 matrix products", 1e12, 1e18, g.fp8_flops, g.facts));
  KVIST_TRY_VOID(
      read_fact(f, "bf16_flops", "FLOP/s", "peak of BF16 matrix products", 1e12, 1e18, g.bf16_flops, g.facts));
  KVIST_TRY_VOID(
      read_fact(f, "link_bandwidth", "B/s", "to the other GPUs, each way", 1e9, 1e15, g.link_bandwidth, g.facts));
  KVIST_TRY_VOID(f.finish());
  return g;
}

Result<ModelFacts> parse_model(std::string_view text, const std::string& name) {
  KVIST_TRY(const YamlNode root, YamlNode::parse(text, name));
  ModelFacts m;
  KVIST_TRY(const YamlNode own_name, root.require("model"));
  KVIST_TRY(m.name, read_part_name(own_name));
  KVIST_TRY(const YamlNode title, root.require("title"));
  KVIST_TRY(m.title, title.as_string());
  KVIST_TRY(const YamlNode f, root.require("facts"));
  KVIST_TRY(const YamlNode drafters, root.require("drafters"));
  KVIST_TRY_VOID(root.finish());
  KVIST_TRY_VOID(read_fact(f, "parameters", "1", "parameters", 1e6, 1e13, m.parameters, m.facts));
  KVIST_TRY_VOID(read_fact(f, "weights", "B", "bytes of all weights", 1e6, 1e13, m.weight_bytes, m.facts));
  KVIST_TRY_VOID(read_fact(f, "nominal_weights", "B", "bytes of all weights by rule of thumb", 1e6, 1e13,
                           m.nominal_weight_bytes, m.facts));
  KVIST_TRY_VOID(read_fact(f, "layers", "1", "transformer layers", 1, 1e4, m.layers, m.facts));
  KVIST_TRY_VOID(read_fact(f, "attention_heads", "1", "query heads", 1, 1e4, m.attention_heads, m.facts));
  KVIST_TRY_VOID(read_fact(f, "kv_heads", "1", "key and value heads", 1, 1e4, m.kv_heads, m.facts));
  KVIST_TRY_VOID(read_fact(f, "head_dimension", "1", "numbers per head", 1, 1e5, m.head_dimension, m.facts));
  KVIST_TRY_VOID(read_fact(f, "hidden_size", "1", "width of a layer", 1, 1e6, m.hidden_size, m.facts));
  KVIST_TRY_VOID(read_fact(f, "intermediate_size", "1", "width inside the feed-forward part", 1, 1e7,
                           m.intermediate_size, m.facts));
  KVIST_TRY_VOID(f.finish());
  KVIST_TRY(const auto entries, drafters.entries());
  for (const auto& [kind, node] : entries) {
    KVIST_TRY(m.drafters[kind], read_part_name(node));
  }
  return m;
}

double ModelFacts::kv_bytes_per_token(spec::KvDtype dtype) const {
  const double bytes = dtype == spec::KvDtype::kFp8 ? 1 : 2;
  return 2 * layers * kv_heads * head_dimension * bytes;
}

ProfileLibrary::ProfileLibrary(std::span<const EmbeddedFile> files) {
  for (const EmbeddedFile& file : files) {
    const std::string path = "data/profiles/" + std::string(file.path);
    const auto keep = [&](auto parsed, auto& parts) {
      KVIST_CHECK(parsed.has_value(), parsed.error().message);
      const std::string name = [&] {
        if constexpr (requires { parsed->name(); }) {
          return parsed->name();
        } else {
          return parsed->name;
        }
      }();
      KVIST_CHECK(file.path.ends_with(fmt::format("/{}.yaml", name)), fmt::format("{} describes {}", path, name));
      parts.emplace(name, std::move(*parsed));
    };
    if (file.path.starts_with("gpus/")) {
      keep(parse_gpu(file.text, path), gpus_);
    } else if (file.path.starts_with("models/")) {
      keep(parse_model(file.text, path), models_);
    } else {
      KVIST_CHECK(file.path.starts_with("engines/"), path + " lies in an unknown folder");
      keep(Coefficients::parse(file.text, path), engines_);
    }
  }
}

Result<const GpuFacts*> ProfileLibrary::gpu(std::string_view name) const {
  return find_part(gpus_, name, "GPU");
}

Result<const ModelFacts*> ProfileLibrary::model(std::string_view name) const {
  return find_part(models_, name, "model");
}

Result<const Coefficients*> ProfileLibrary::engine(std::string_view name) const {
  return find_part(engines_, name, "engine behaviour");
}

Result<const ModelFacts*> ProfileLibrary::drafter(const ModelFacts& target, std::string_view name) const {
  const auto kind = target.drafters.find(std::string(name));
  if (kind != target.drafters.end()) return model(kind->second);
  if (models_.contains(name)) return model(name);
  std::string known;
  for (const auto& [other, part] : target.drafters) known.append(other).append(", ");
  return fail(ErrorCode::kNotFound,
              fmt::format("no drafter \"{}\" for {}; there is: {}or a model of its own (llama-3.1-8b-fp8)", name,
                          target.name, known));
}

Result<void> ProfileLibrary::check_drafter(std::string_view name) const {
  std::set<std::string> kinds;
  for (const auto& [model, facts] : models_)
    for (const auto& [kind, drafter] : facts.drafters) kinds.insert(kind);
  std::vector<std::string> known(kinds.begin(), kinds.end());
  for (const auto& [model, facts] : models_) known.push_back(model);
  known.emplace_back("prompt_lookup");  // the CPU engine's, which a timed one may stand for: it needs no model
  if (std::ranges::find(known, name) != known.end()) return {};
  const std::string meant = did_you_mean(name, known);
  return fail(ErrorCode::kNotFound, fmt::format("speculation.drafter: no drafter \"{}\"{} are: {}", name,
                                                meant.empty() ? "; there" : meant + " There", fmt::join(known, ", ")));
}

const ProfileLibrary& library() {
  static const ProfileLibrary kLibrary(embedded_profiles());
  return kLibrary;
}

}  // namespace kvist::perfmodel
