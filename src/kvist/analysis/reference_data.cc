#include "kvist/analysis/reference_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "kvist/analysis/mode_names.h"
#include "kvist/base/input_file.h"
#include "kvist/base/json.h"
#include "kvist/render/figures.h"

namespace kvist::analysis {
namespace {

constexpr std::size_t kMaxLevels = 10'000;
constexpr double kMostFigure = 1e15;

constexpr spec::RoutingMode kModes[] = {spec::RoutingMode::kRoundRobin, spec::RoutingMode::kRandom,
                                        spec::RoutingMode::kLeastLoaded, spec::RoutingMode::kKv,
                                        spec::RoutingMode::kDynamo};

std::optional<spec::RoutingMode> mode_of_key(std::string_view key) {
  for (const spec::RoutingMode mode : kModes) {
    if (key == json_key(mode) || key == spec::to_string(mode)) return mode;
  }
  return std::nullopt;
}

std::string text_of(const JsonObject& from, std::string_view key) {
  const std::optional<JsonValue> value = from.peek(key);
  return std::string(value ? value->if_string().value_or("") : "");
}

std::string value_text(const JsonValue& value) {
  if (const auto text = value.if_string()) return std::string(*text);
  if (const auto flag = value.if_bool()) return *flag ? "yes" : "no";
  if (const auto number = value.if_double()) return render::format_plain(*number);
  return {};
}

void read_deployment(const JsonObject& from, const std::string& prefix, Reference& reference) {
  for (const auto [name, value] : from) {
    const std::string key = prefix + std::string(name);
    if (const std::optional<JsonObject> nested = value.if_object()) {
      if (prefix.empty()) read_deployment(*nested, key + ".", reference);
      continue;
    }
    reference.deployment.emplace_back(key, value_text(value));
  }
}

Result<ReferenceFigures> read_figures(const JsonObject& from, spec::RoutingMode mode, std::uint32_t concurrency) {
  ReferenceFigures level{
      .mode = mode, .concurrency = concurrency, .figures = {}, .valid_runs = text_of(from, "valid_runs")};
  for (std::size_t i = 0; i < kPublishedFigures; ++i) {
    const std::string_view key = published_figures()[i].key;
    KVIST_TRY(level.figures[i], from.find_double(key, -kMostFigure, kMostFigure));
  }
  return level;
}

Result<void> read_level(const JsonObject& from, std::optional<spec::RoutingMode> flat_mode, Reference& reference) {
  KVIST_TRY(const std::uint64_t concurrency, from.require_unsigned("concurrency", 1, 10'000'000));
  const auto level = static_cast<std::uint32_t>(concurrency);
  reference.concurrencies.push_back(level);
  if (flat_mode) {
    KVIST_TRY(ReferenceFigures figures, read_figures(from, *flat_mode, level));
    reference.levels.push_back(std::move(figures));
    return {};
  }
  const auto before = static_cast<std::ptrdiff_t>(reference.levels.size());
  for (const auto [key, value] : from) {
    const std::optional<spec::RoutingMode> mode = mode_of_key(key);
    const std::optional<JsonObject> figures_of_mode = value.if_object();
    if (!mode || !figures_of_mode) continue;
    const auto is_there = [&](const ReferenceFigures& there) { return there.mode == *mode; };
    if (std::any_of(reference.levels.begin() + before, reference.levels.end(), is_there)) {
      return value.wrong("the mode is given twice");
    }
    KVIST_TRY(ReferenceFigures figures, read_figures(*figures_of_mode, *mode, level));
    reference.levels.push_back(std::move(figures));
  }
  return {};
}

Result<void> read_levels(const JsonObject& root, Reference& reference) {
  KVIST_TRY(const JsonArray levels, root.require_array("levels", "the levels of a file of published figures"));
  if (levels.size() > kMaxLevels) {
    return levels.value().error(ErrorCode::kTooLarge, fmt::format("more than {} levels", kMaxLevels));
  }
  const std::string mode_name = text_of(root, "mode");
  const std::optional<spec::RoutingMode> flat_mode = mode_of_key(mode_name);
  if (!mode_name.empty() && !flat_mode) return root.wrong("mode", fmt::format("unknown mode \"{}\"", mode_name));
  for (const JsonValue entry : levels) {
    KVIST_TRY(const JsonObject level, entry.as_object());
    KVIST_TRY_VOID(read_level(level, flat_mode, reference));
  }
  std::ranges::sort(reference.concurrencies);
  std::ranges::stable_sort(reference.levels, {}, &ReferenceFigures::concurrency);
  return {};
}

}  // namespace

std::optional<double> ReferenceFigures::figure(const NamedFigure& named) const {
  for (std::size_t i = 0; i < kPublishedFigures; ++i) {
    if (published_figures()[i].key == named.key) return figures[i];
  }
  return std::nullopt;
}

const ReferenceFigures* Reference::find(spec::RoutingMode mode, std::uint32_t concurrency) const {
  for (const ReferenceFigures& level : levels) {
    if (level.mode == mode && level.concurrency == concurrency) return &level;
  }
  return nullptr;
}

std::vector<spec::RoutingMode> Reference::modes() const {
  std::vector<spec::RoutingMode> modes;
  for (const spec::RoutingMode mode : kModes) {
    if (std::ranges::find(levels, mode, &ReferenceFigures::mode) != levels.end()) modes.push_back(mode);
  }
  return modes;
}

Result<Reference> parse_reference(std::string_view json, const std::string& name) {
  JsonDocument document({.name = name, .wrong = ErrorCode::kInvalidArgument, .most_bytes = kMostReferenceBytes});
  KVIST_TRY(const JsonObject root, document.parse_object(json));
  Reference reference;
  reference.name = name;
  reference.source = text_of(root, "source");
  reference.note = text_of(root, "note");
  KVIST_TRY(const std::optional<JsonObject> deployment, root.find_object("deployment"));
  if (deployment) read_deployment(*deployment, "", reference);
  KVIST_TRY(const std::optional<JsonObject> expected, root.find_object("expected"));
  if (expected) {
    for (const auto [key, value] : *expected) {
      if (const auto number = value.if_double()) reference.expected.emplace_back(key, *number);
    }
  }
  KVIST_TRY_VOID(read_levels(root, reference));
  return reference;
}

Result<Reference> load_reference(const std::string& path) {
  KVIST_TRY(const std::string text, read_file(path, kMostReferenceBytes));
  Result<Reference> reference = parse_reference(text, std::filesystem::path(path).stem().string());
  if (!reference) return std::unexpected(std::move(reference).error().in(path));
  return reference;
}

}  // namespace kvist::analysis
