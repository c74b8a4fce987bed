#include "kvist/analysis/reference_data.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"

namespace kvist::analysis {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::uintmax_t kMaxBytes = 16ULL << 20;
constexpr std::size_t kMaxLevels = 10'000;

constexpr spec::RoutingMode kModes[] = {spec::RoutingMode::kRoundRobin, spec::RoutingMode::kRandom,
                                        spec::RoutingMode::kLeastLoaded, spec::RoutingMode::kKv,
                                        spec::RoutingMode::kDynamo};

std::optional<spec::RoutingMode> mode_of_key(std::string_view key) {
  for (const spec::RoutingMode mode : kModes) {
    if (key == json_key(mode) || key == spec::to_string(mode)) return mode;
  }
  return std::nullopt;
}

std::string text_of(const object& from, std::string_view key) {
  std::string_view text;
  return from[key].get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

std::string value_text(const element& value) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return std::string(text);
  bool flag = false;
  if (value.get(flag) == simdjson::SUCCESS) return flag ? "yes" : "no";
  double number = 0;
  if (value.get(number) == simdjson::SUCCESS) return render::format_plain(number);
  return {};
}

void read_deployment(const object& from, const std::string& prefix, Reference& reference) {
  for (const auto& field : from) {
    const std::string key = prefix + std::string(field.key);
    object nested;
    if (field.value.get(nested) == simdjson::SUCCESS) {
      if (prefix.empty()) read_deployment(nested, key + ".", reference);
      continue;
    }
    reference.deployment.emplace_back(key, value_text(field.value));
  }
}

Result<ReferenceFigures> read_figures(const object& from, spec::RoutingMode mode, std::uint32_t concurrency) {
  ReferenceFigures level{
      .mode = mode, .concurrency = concurrency, .figures = {}, .valid_runs = text_of(from, "valid_runs")};
  for (std::size_t i = 0; i < kPublishedFigures; ++i) {
    const std::string_view key = published_figures()[i].key;
    element value;
    if (from[key].get(value) != simdjson::SUCCESS || value.is_null()) continue;
    double number = 0;
    if (value.get(number) != simdjson::SUCCESS || !std::isfinite(number)) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{} is not a number", key));
    }
    level.figures[i] = number;
  }
  return level;
}

Result<void> read_level(const object& from, std::optional<spec::RoutingMode> flat_mode, Reference& reference) {
  std::uint64_t concurrency = 0;
  if (from["concurrency"].get(concurrency) != simdjson::SUCCESS || concurrency == 0 || concurrency > 10'000'000) {
    return fail(ErrorCode::kInvalidArgument, "concurrency is missing or no count");
  }
  const auto level = static_cast<std::uint32_t>(concurrency);
  reference.concurrencies.push_back(level);
  if (flat_mode) {
    KVIST_TRY(ReferenceFigures figures, read_figures(from, *flat_mode, level));
    reference.levels.push_back(std::move(figures));
    return {};
  }
  const auto before = static_cast<std::ptrdiff_t>(reference.levels.size());
  for (const auto& field : from) {
    const std::optional<spec::RoutingMode> mode = mode_of_key(field.key);
    object figures_of_mode;
    if (!mode || field.value.get(figures_of_mode) != simdjson::SUCCESS) continue;
    const auto is_there = [&](const ReferenceFigures& there) { return there.mode == *mode; };
    if (std::any_of(reference.levels.begin() + before, reference.levels.end(), is_there)) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("mode \"{}\" occurs twice", field.key));
    }
    KVIST_TRY(ReferenceFigures figures, read_figures(figures_of_mode, *mode, level));
    reference.levels.push_back(std::move(figures));
  }
  return {};
}

Result<void> read_levels(const object& root, Reference& reference) {
  simdjson::dom::array levels;
  if (root["levels"].get(levels) != simdjson::SUCCESS) {
    return fail(ErrorCode::kInvalidArgument, "no list \"levels\": not a file of published figures");
  }
  if (levels.size() > kMaxLevels) return fail(ErrorCode::kTooLarge, fmt::format("more than {} levels", kMaxLevels));
  const std::string mode_name = text_of(root, "mode");
  const std::optional<spec::RoutingMode> flat_mode = mode_of_key(mode_name);
  if (!mode_name.empty() && !flat_mode) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("unknown mode \"{}\"", mode_name));
  }
  std::size_t number = 0;
  for (const element& entry : levels) {
    object level;
    Result<void> read = entry.get(level) == simdjson::SUCCESS ? read_level(level, flat_mode, reference)
                                                              : fail(ErrorCode::kInvalidArgument, "is no object");
    if (!read) return std::unexpected(std::move(read).error().in(fmt::format("levels[{}]", number)));
    ++number;
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
  simdjson::dom::parser parser(kMaxBytes);
  object root;
  if (const simdjson::error_code error = parser.parse(simdjson::padded_string(json)).get(root)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: no JSON object: {}", name, simdjson::error_message(error)));
  }
  Reference reference;
  reference.name = name;
  reference.source = text_of(root, "source");
  reference.note = text_of(root, "note");
  object nested;
  if (root["deployment"].get(nested) == simdjson::SUCCESS) read_deployment(nested, "", reference);
  if (root["expected"].get(nested) == simdjson::SUCCESS) {
    for (const auto& field : nested) {
      double number = 0;
      if (field.value.get(number) == simdjson::SUCCESS) reference.expected.emplace_back(field.key, number);
    }
  }
  if (Result<void> levels = read_levels(root, reference); !levels) {
    return std::unexpected(std::move(levels).error().in(name));
  }
  return reference;
}

Result<Reference> load_reference(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return fail(ErrorCode::kNotFound, fmt::format("{}: {}", path, error.message()));
  if (bytes > kMaxBytes) return fail(ErrorCode::kTooLarge, fmt::format("{}: larger than {} bytes", path, kMaxBytes));
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return fail(ErrorCode::kNotFound, path + ": cannot be read");
  Result<Reference> reference = parse_reference(text, std::filesystem::path(path).stem().string());
  if (!reference) return std::unexpected(std::move(reference).error().in(path));
  return reference;
}

}  // namespace kvist::analysis
