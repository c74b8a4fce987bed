#include "kvist/laboratory/routing_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace kvist::laboratory {
namespace {

constexpr std::int64_t kMaxLevel = std::numeric_limits<std::uint32_t>::max();

Result<std::string> required_text(const YamlNode& map, std::string_view key) {
  KVIST_TRY(const YamlNode node, map.require(key));
  return node.as_string();
}

Result<void> read_mode(const YamlNode& map, std::string_view key, spec::RoutingMode& mode) {
  const std::optional<YamlNode> node = map.get(key);
  if (!node) return {};
  KVIST_TRY(const std::string name, node->as_string());
  const Result<spec::RoutingMode> parsed = spec::parse_routing_mode(name);
  if (!parsed) return std::unexpected(node->error(parsed.error().message));
  mode = *parsed;
  return {};
}

Result<std::vector<RoutingBar>> read_bars(const YamlNode& root) {
  KVIST_TRY(const YamlNode node, root.require("bars"));
  KVIST_TRY(const auto entries, node.entries());
  std::vector<RoutingBar> bars;
  for (const auto& [id, entry] : entries) {
    RoutingBar bar{.id = id, .claim = {}, .holds_if = {}, .shows = {}};
    KVIST_TRY(bar.claim, required_text(entry, "claim"));
    KVIST_TRY(bar.holds_if, required_text(entry, "holds_if"));
    KVIST_TRY(bar.shows, required_text(entry, "shows"));
    KVIST_TRY_VOID(entry.finish());
    bars.push_back(std::move(bar));
  }
  return bars;
}

Result<RoutingBar> find_bar(const YamlNode& node, const std::vector<RoutingBar>& bars) {
  KVIST_TRY(const std::string id, node.as_string());
  const auto found = std::ranges::find(bars, id, &RoutingBar::id);
  if (found == bars.end()) return std::unexpected(node.error(fmt::format("no bar is called \"{}\"", id)));
  return *found;
}

Result<void> read_level(const YamlNode& map, std::string_view key, std::optional<std::uint32_t>& level) {
  const std::optional<YamlNode> node = map.get(key);
  if (!node) return {};
  KVIST_TRY(const std::int64_t value, node->as_int(1, kMaxLevel));
  level = static_cast<std::uint32_t>(value);
  return {};
}

/// A bar's id, or {bar: ID, from: LEVEL, up_to: LEVEL}.
Result<DemandedBar> read_demanded(const YamlNode& node, const std::vector<RoutingBar>& bars) {
  DemandedBar demanded;
  if (!node.is_map()) {
    KVIST_TRY(demanded.bar, find_bar(node, bars));
    return demanded;
  }
  KVIST_TRY(const YamlNode id, node.require("bar"));
  KVIST_TRY(demanded.bar, find_bar(id, bars));
  KVIST_TRY_VOID(read_level(node, "from", demanded.from));
  KVIST_TRY_VOID(read_level(node, "up_to", demanded.up_to));
  KVIST_TRY_VOID(node.finish());
  return demanded;
}

Result<ShortfallNote> read_note(const YamlNode& node, const std::vector<RoutingBar>& bars) {
  ShortfallNote note;
  KVIST_TRY(const YamlNode id, node.require("bar"));
  KVIST_TRY(const RoutingBar bar, find_bar(id, bars));
  note.bar = bar.id;
  if (const std::optional<YamlNode> levels = node.get("levels")) {
    KVIST_TRY(const std::vector<YamlNode> elements, levels->elements());
    for (const YamlNode& element : elements) {
      KVIST_TRY(const std::int64_t level, element.as_int(1, kMaxLevel));
      note.levels.push_back(static_cast<std::uint32_t>(level));
    }
  }
  KVIST_TRY(note.because, required_text(node, "because"));
  KVIST_TRY_VOID(node.finish());
  return note;
}

Result<RoutingScenario> read_scenario(const YamlNode& node, const std::vector<RoutingBar>& bars) {
  RoutingScenario scenario;
  KVIST_TRY(scenario.name, required_text(node, "name"));
  KVIST_TRY(scenario.title, required_text(node, "title"));
  KVIST_TRY(scenario.shows, required_text(node, "shows"));
  if (const auto unit = node.get("level_unit")) {
    KVIST_TRY(scenario.level_unit, unit->as_string());
  }
  if (const auto plot = node.get("plot")) {
    KVIST_TRY(scenario.plot, plot->as_bool());
  }
  KVIST_TRY(const YamlNode demanded, node.require("bars"));
  KVIST_TRY(const std::vector<YamlNode> elements, demanded.elements());
  for (const YamlNode& element : elements) {
    KVIST_TRY(DemandedBar bar, read_demanded(element, bars));
    scenario.bars.push_back(std::move(bar));
  }
  if (const auto notes = node.get("shortfalls")) {
    KVIST_TRY(const std::vector<YamlNode> written, notes->elements());
    for (const YamlNode& element : written) {
      KVIST_TRY(ShortfallNote note, read_note(element, bars));
      scenario.notes.push_back(std::move(note));
    }
  }
  KVIST_TRY_VOID(node.finish());
  return scenario;
}

}  // namespace

const ShortfallNote* RoutingScenario::note(const std::string& bar, std::uint32_t level) const {
  for (const ShortfallNote& note : notes) {
    const bool is_level = note.levels.empty() || std::ranges::find(note.levels, level) != note.levels.end();
    if (note.bar == bar && is_level) return &note;
  }
  return nullptr;
}

Result<RoutingScenarios> read_routing_scenarios(const YamlNode& root) {
  RoutingScenarios all;
  KVIST_TRY_VOID(read_mode(root, "candidate", all.candidate));
  KVIST_TRY_VOID(read_mode(root, "baseline", all.baseline));
  KVIST_TRY(const std::vector<RoutingBar> bars, read_bars(root));
  KVIST_TRY(const YamlNode list, root.require("scenarios"));
  KVIST_TRY_VOID(root.finish());
  KVIST_TRY(const std::vector<YamlNode> nodes, list.elements());
  for (const YamlNode& node : nodes) {
    KVIST_TRY(RoutingScenario scenario, read_scenario(node, bars));
    all.scenarios.push_back(std::move(scenario));
  }
  return all;
}

}  // namespace kvist::laboratory
