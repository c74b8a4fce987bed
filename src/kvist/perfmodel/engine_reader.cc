#include "kvist/perfmodel/engine_reader.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "kvist/perfmodel/fact_reading.h"

namespace kvist::perfmodel {
namespace {

constexpr std::size_t kMaxTiles = 64;
constexpr std::uint32_t kMaxGraphSize = 65'536;

/// The origin of switches, which are options and not measurements.
Origin option_origin() {
  return {OriginKind::kDerived, "an option of the engine behaviour"};
}

/// "1-32" or "64".
Result<void> read_sizes(const YamlNode& node, std::vector<std::uint32_t>& sizes) {
  KVIST_TRY(const std::string text, node.as_string());
  const auto number = [&](std::string_view part) -> std::uint32_t {
    std::uint32_t value = 0;
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), value);
    return status == std::errc() && end == part.data() + part.size() && value <= kMaxGraphSize ? value : 0;
  };
  const std::size_t dash = text.find('-');
  const std::uint32_t first = number(std::string_view(text).substr(0, dash));
  const std::uint32_t last = dash == std::string::npos ? first : number(std::string_view(text).substr(dash + 1));
  if (first == 0 || last < first) {
    return std::unexpected(node.error(
        fmt::format("expected a batch size or a range of them (1-32) up to {}, got \"{}\"", kMaxGraphSize, text)));
  }
  if (!sizes.empty() && first <= sizes.back()) return std::unexpected(node.error("batch sizes must ascend"));
  for (std::uint32_t size = first; size <= last; ++size) sizes.push_back(size);
  return {};
}

}  // namespace

Result<Coefficients> EngineReader::read(const YamlNode& root) {
  KVIST_TRY_VOID(read_head(root));
  KVIST_TRY(const YamlNode node, root.require("mechanisms"));
  KVIST_TRY_VOID(root.finish());
  for (const Mechanism& mechanism : mechanisms()) {
    if (const auto part = node.get(mechanism.name)) {
      KVIST_TRY_VOID(read_mechanism(*part, mechanism));
    } else if (mechanism.is_required) {
      return std::unexpected(node.error(fmt::format("mechanism \"{}\" is missing", mechanism.name)));
    }
  }
  KVIST_TRY_VOID(node.finish());
  return std::move(out_);
}

Result<void> EngineReader::read_head(const YamlNode& root) {
  KVIST_TRY(const YamlNode name, root.require("engine"));
  KVIST_TRY(out_.name_, read_part_name(name));
  KVIST_TRY(const YamlNode title, root.require("title"));
  KVIST_TRY(out_.title_, title.as_string());
  KVIST_TRY(const YamlNode fitted, root.require("fitted_on"));
  KVIST_TRY(const YamlNode gpu, fitted.require("gpu"));
  KVIST_TRY(out_.fitted_on_.gpu, read_part_name(gpu));
  KVIST_TRY(const YamlNode model, fitted.require("model"));
  KVIST_TRY(out_.fitted_on_.model, read_part_name(model));
  KVIST_TRY(const YamlNode parallel, fitted.require("tensor_parallel"));
  KVIST_TRY(const std::int64_t gpus, parallel.as_int(1, 4));
  out_.fitted_on_.tensor_parallel = static_cast<std::uint32_t>(gpus);
  KVIST_TRY_VOID(fitted.finish());
  KVIST_TRY(const YamlNode behaviour, root.require("behaviour"));
  return read_behaviour(behaviour);
}

Result<void> EngineReader::read_behaviour(const YamlNode& node) {
  EngineBehaviour& b = out_.behaviour_;
  KVIST_TRY(const YamlNode admission, node.require("admission"));
  KVIST_TRY(const std::string policy, admission.as_string());
  if (policy != "reserve_to_completion" && policy != "greedy") {
    return std::unexpected(
        admission.error(fmt::format("expected reserve_to_completion or greedy, got \"{}\"", policy)));
  }
  b.admission = policy == "greedy" ? spec::AdmissionKind::kGreedy : spec::AdmissionKind::kReserveToCompletion;
  KVIST_TRY(const YamlNode steps, node.require("max_steps_in_flight"));
  KVIST_TRY(const std::int64_t in_flight, steps.as_int(1, 2));
  b.max_steps_in_flight = static_cast<std::uint32_t>(in_flight);
  KVIST_TRY(const YamlNode deferral, node.require("prefix_deferral"));
  KVIST_TRY(b.prefix_deferral, deferral.as_bool());
  if (const auto planned = node.get("prefix_when_planned")) {
    KVIST_TRY(b.prefix_when_planned, planned->as_bool());
  }
  KVIST_TRY(const YamlNode fraction, node.require("memory_fraction"));
  KVIST_TRY(b.memory_fraction, fraction.as_double(0.05, 1.0));
  KVIST_TRY(const YamlNode meaning, node.require("memory_meaning"));
  KVIST_TRY(const std::string word, meaning.as_string());
  if (word != "of_total" && word != "of_free") {
    return std::unexpected(meaning.error(fmt::format("expected of_total or of_free, got \"{}\"", word)));
  }
  b.memory_meaning = word == "of_total" ? spec::MemoryMeaning::kOfTotal : spec::MemoryMeaning::kOfFree;
  return node.finish();
}

Result<void> EngineReader::read_mechanism(const YamlNode& node, const Mechanism& mechanism) {
  KVIST_TRY_VOID(read_switch(node, mechanism.name, "enabled", "the mechanism is in force"));
  if (mechanism.name == "tiles") return read_tiles(node);
  for (const CoefficientKind& kind : mechanism.coefficients) {
    if (kind.unit == kSwitchUnit) {
      KVIST_TRY_VOID(read_switch(node, mechanism.name, kind.name, kind.meaning));
    } else {
      KVIST_TRY_VOID(read_coefficient(node, mechanism.name, kind));
    }
  }
  if (mechanism.name == "graphs") KVIST_TRY_VOID(read_graph_sizes(node));
  return node.finish();
}

Result<void> EngineReader::read_coefficient(const YamlNode& map, std::string_view mechanism,
                                            const CoefficientKind& kind) {
  const auto node = map.get(kind.name);
  if (!node && !kind.absent) {
    return std::unexpected(map.error(fmt::format("coefficient \"{}\" is missing", kind.name)));
  }
  Entry entry;
  if (node) {
    KVIST_TRY(entry, read_entry(*node, kind.unit, kind.low, kind.high));
  } else {
    entry = {.value = *kind.absent, .origin = {OriginKind::kDerived, "not in the file: no such effect"}};
  }
  out_.all_.push_back({.name = fmt::format("{}.{}", mechanism, kind.name),
                       .value = entry.value,
                       .unit = std::string(kind.unit),
                       .meaning = std::string(kind.meaning),
                       .origin = std::move(entry.origin),
                       .low = kind.low,
                       .high = kind.high,
                       .is_free = entry.is_free,
                       .scales_with = entry.scales_with});
  return {};
}

Result<void> EngineReader::read_switch(const YamlNode& map, std::string_view mechanism, std::string_view name,
                                       std::string_view meaning) {
  bool is_on = true;
  if (const auto node = map.get(name)) {
    KVIST_TRY(is_on, node->as_bool());
  } else if (name != "enabled") {
    return std::unexpected(map.error(fmt::format("switch \"{}\" is missing: true or false", name)));
  }
  out_.all_.push_back({.name = fmt::format("{}.{}", mechanism, name),
                       .value = is_on ? 1.0 : 0.0,
                       .unit = std::string(kSwitchUnit),
                       .meaning = std::string(meaning),
                       .origin = option_origin(),
                       .low = 0,
                       .high = 1});
  return {};
}

Result<void> EngineReader::read_tiles(const YamlNode& node) {
  KVIST_TRY(const auto entries, node.entries());
  if (entries.size() > kMaxTiles) return std::unexpected(node.error(fmt::format("more than {} tiles", kMaxTiles)));
  std::uint32_t last = 0;
  bool is_first = true;
  for (const auto& [name, value] : entries) {
    if (name == "enabled") continue;
    const auto rows = tile_rows(name);
    if (!rows) {
      return std::unexpected(value.error(fmt::format("expected above_N with a number of rows N, got \"{}\"", name)));
    }
    if (!is_first && *rows <= last) return std::unexpected(value.error("tiles must ascend by rows"));
    last = *rows;
    is_first = false;
    CoefficientKind kind = tile_kind();
    kind.name = name;
    KVIST_TRY_VOID(read_coefficient(node, "tiles", kind));
  }
  return {};
}

Result<void> EngineReader::read_graph_sizes(const YamlNode& node) {
  KVIST_TRY(const YamlNode sizes, node.require("sizes"));
  KVIST_TRY(const auto elements, sizes.elements());
  for (const YamlNode& element : elements) KVIST_TRY_VOID(read_sizes(element, out_.graph_sizes_));
  if (out_.graph_sizes_.empty()) {
    return std::unexpected(sizes.error("no batch size: an engine without graphs has `enabled: false`"));
  }
  return {};
}

}  // namespace kvist::perfmodel
