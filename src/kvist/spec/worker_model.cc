// The parts of a worker's settings for the modelled GPU: its profile and speculation.
#include <array>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvist/spec/deployment.h"
#include "kvist/spec/endpoint.h"
#include "kvist/spec/fields.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {
namespace {

constexpr std::int64_t kMaxDraftTokens = 15;
/// Below this fraction no model fits. Catches fractions that were meant as percentages.
constexpr double kMinMemoryFraction = 0.05;

constexpr std::array kDraftLengthWords = {Word{"fixed", DraftLength::kFixed}, Word{"adaptive", DraftLength::kAdaptive}};

/// One number for all positions, or a list.
Result<void> read_acceptance(const YamlNode& speculation, std::vector<double>& acceptance) {
  const auto node = speculation.get("acceptance");
  if (!node) return {};
  acceptance.clear();
  if (!node->is_sequence()) {
    KVIST_TRY(const double everywhere, node->as_double(0.0, 1.0));
    acceptance.push_back(everywhere);
    return {};
  }
  KVIST_TRY(const auto elements, node->elements());
  for (const YamlNode& element : elements) {
    KVIST_TRY(const double probability, element.as_double(0.0, 1.0));
    acceptance.push_back(probability);
  }
  if (acceptance.empty() || acceptance.size() > kMaxDraftTokens) {
    return std::unexpected(node->error(
        fmt::format("{} probabilities, expected 1 to {}: one per draft position, the last holds for those after it",
                    acceptance.size(), kMaxDraftTokens)));
  }
  return {};
}

constexpr std::array kMeaningWords = {Word{"engine", MemoryMeaning::kEngine}, Word{"of_total", MemoryMeaning::kOfTotal},
                                      Word{"of_free", MemoryMeaning::kOfFree}};
constexpr std::array kDtypeWords = {Word{"fp8", KvDtype::kFp8}, Word{"fp16", KvDtype::kFp16}};
constexpr std::size_t kMaxSettings = 256;

/// Numbers, or true and false for switches.
Result<void> read_settings(const YamlNode& profile, std::map<std::string, double>& settings) {
  const auto node = profile.get("set");
  if (!node) return {};
  KVIST_TRY(const auto entries, node->entries());
  if (entries.size() > kMaxSettings) return std::unexpected(node->error("more settings than there are coefficients"));
  for (const auto& [name, value] : entries) {
    if (const auto flag = value.as_bool()) {
      settings[name] = *flag ? 1 : 0;
    } else {
      KVIST_TRY(settings[name], value.as_double(-1e18, 1e18));
    }
  }
  return {};
}

}  // namespace

Result<void> read_profile(const YamlNode& worker, const std::string& base_directory,
                          std::optional<ProfileSpec>& profile) {
  const auto node = worker.get("profile");
  if (!node) return {};
  ProfileSpec p;
  KVIST_TRY_VOID(read_name(*node, "gpu", p.gpu));
  KVIST_TRY_VOID(read_name(*node, "model", p.model));
  KVIST_TRY_VOID(read_name(*node, "engine", p.engine));
  KVIST_TRY_VOID(read_field(*node, "tensor_parallel", p.tensor_parallel, 1, 4));
  KVIST_TRY_VOID(read_word(*node, "kv_dtype", kDtypeWords, p.kv_dtype));
  KVIST_TRY_VOID(read_field(*node, "memory_fraction", p.memory_fraction, kMinMemoryFraction, 1.0));
  KVIST_TRY_VOID(read_word(*node, "memory_meaning", kMeaningWords, p.memory_meaning));
  KVIST_TRY_VOID(read_path(*node, "file", base_directory, p.file));
  KVIST_TRY_VOID(read_settings(*node, p.set));
  KVIST_TRY_VOID(node->finish());
  if (p.tensor_parallel == 3) {
    return std::unexpected(node->get("tensor_parallel")->error("expected 1, 2 or 4 GPUs per worker, got 3"));
  }
  profile = std::move(p);
  return {};
}

void write_profile(YamlWriter& out, const ProfileSpec& p) {
  out.begin_map("profile").field("gpu", p.gpu).field("model", p.model).field("engine", p.engine);
  out.field("tensor_parallel", p.tensor_parallel).field("kv_dtype", word_of(kDtypeWords, p.kv_dtype));
  if (p.memory_fraction > 0) out.field("memory_fraction", p.memory_fraction);
  if (p.memory_meaning != MemoryMeaning::kEngine) {
    out.field("memory_meaning", word_of(kMeaningWords, p.memory_meaning));
  }
  if (!p.file.empty()) out.field("file", p.file);
  if (!p.set.empty()) {
    out.begin_map("set");
    for (const auto& [name, value] : p.set) out.field(name, value);
    out.end_map();
  }
  out.end_map();
}

Result<void> read_speculation(const YamlNode& worker, SpeculationSpec& s) {
  const auto node = worker.get("speculation");
  if (!node) return {};
  s.enabled = true;  // a described drafter is on by default; `enabled: false` switches it off
  KVIST_TRY_VOID(read_field(*node, "enabled", s.enabled));
  KVIST_TRY_VOID(read_name(*node, "drafter", s.drafter));
  KVIST_TRY_VOID(read_word(*node, "draft_length", kDraftLengthWords, s.draft_length));
  KVIST_TRY_VOID(read_field(*node, "draft_tokens", s.draft_tokens, 1, kMaxDraftTokens));
  KVIST_TRY_VOID(read_acceptance(*node, s.acceptance));
  return node->finish();
}

void write_speculation(YamlWriter& out, const SpeculationSpec& s) {
  out.begin_map("speculation").field("enabled", s.enabled).field("drafter", s.drafter);
  out.field("draft_length", word_of(kDraftLengthWords, s.draft_length)).field("draft_tokens", s.draft_tokens);
  out.raw("acceptance", fmt::format("[{}]", fmt::join(s.acceptance, ", "))).end_map();
}

}  // namespace kvist::spec
