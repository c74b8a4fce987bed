#include "kvist/analysis/check_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvist::analysis {
namespace {

constexpr std::int64_t kMaxConcurrency = 10'000'000;

Result<const NamedFigure*> read_figure(const YamlNode& node) {
  KVIST_TRY(const std::string key, node.as_string());
  if (const NamedFigure* figure = find_figure(key)) return figure;
  std::string known;
  for (const NamedFigure& figure : published_figures())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", figure.key);
  return std::unexpected(node.error(fmt::format("no figure \"{}\"; there are: {}", key, known)));
}

Result<std::string> read_text(const YamlNode& map, std::string_view key) {
  const std::optional<YamlNode> node = map.get(key);
  if (!node) return std::string();
  return node->as_string();
}

Result<Bar> read_bar(const YamlNode& node) {
  Bar bar;
  KVIST_TRY(const YamlNode metric, node.require("metric"));
  KVIST_TRY(bar.figure, read_figure(metric));
  KVIST_TRY(const YamlNode within, node.require("within_pct"));
  KVIST_TRY(bar.within_pct, within.as_double(0, 1'000));
  if (const std::optional<YamlNode> up_to = node.get("up_to")) {
    KVIST_TRY(const std::int64_t level, up_to->as_int(1, kMaxConcurrency));
    bar.up_to = static_cast<std::uint32_t>(level);
  }
  if (const std::optional<YamlNode> beyond = node.get("beyond_slots")) {
    KVIST_TRY(const std::string rule, beyond->as_string());
    if (rule != "within_seeds_range") {
      return std::unexpected(beyond->error(fmt::format("\"{}\"; known is: within_seeds_range", rule)));
    }
    bar.range_beyond_slots = true;
  }
  KVIST_TRY(bar.reason, read_text(node, "reason"));
  KVIST_TRY_VOID(node.finish());
  return bar;
}

/// Reads bars. A bar on a figure that has one already replaces it.
Result<void> read_bars(const YamlNode& list, std::vector<Bar>& bars) {
  KVIST_TRY(const std::vector<YamlNode> nodes, list.elements());
  for (const YamlNode& node : nodes) {
    KVIST_TRY(Bar bar, read_bar(node));
    const auto same = std::ranges::find(bars, bar.figure, &Bar::figure);
    if (same == bars.end()) {
      bars.push_back(std::move(bar));
    } else {
      *same = std::move(bar);
    }
  }
  return {};
}

Result<Exclusion> read_exclusion(const YamlNode& node) {
  Exclusion exclusion;
  if (const std::optional<YamlNode> mode = node.get("mode")) {
    KVIST_TRY(const std::string name, mode->as_string());
    Result<spec::RoutingMode> parsed = spec::parse_routing_mode(name);
    if (!parsed) return std::unexpected(mode->error(parsed.error().message));
    exclusion.mode = *parsed;
  }
  KVIST_TRY(const YamlNode concurrency, node.require("concurrency"));
  KVIST_TRY(const std::int64_t level, concurrency.as_int(1, kMaxConcurrency));
  exclusion.concurrency = static_cast<std::uint32_t>(level);
  if (const std::optional<YamlNode> metrics = node.get("metrics")) {
    KVIST_TRY(const std::vector<YamlNode> names, metrics->elements());
    for (const YamlNode& name : names) {
      KVIST_TRY(const NamedFigure* figure, read_figure(name));
      exclusion.figures.push_back(figure);
    }
  }
  KVIST_TRY(const YamlNode reason, node.require("reason"));
  KVIST_TRY(exclusion.reason, reason.as_string());
  KVIST_TRY_VOID(node.finish());
  return exclusion;
}

}  // namespace

const Bar* CheckRules::bar(const NamedFigure& figure) const {
  const auto found = std::ranges::find(bars, &figure, &Bar::figure);
  return found == bars.end() ? nullptr : &*found;
}

const Exclusion* CheckRules::exclusion(spec::RoutingMode mode, std::uint32_t concurrency,
                                       const NamedFigure& figure) const {
  for (const Exclusion& exclusion : exclusions) {
    if (exclusion.concurrency != concurrency || (exclusion.mode && *exclusion.mode != mode)) continue;
    if (exclusion.figures.empty() || std::ranges::find(exclusion.figures, &figure) != exclusion.figures.end()) {
      return &exclusion;
    }
  }
  return nullptr;
}

Result<CheckRules> read_check_rules(const YamlNode& root, std::string_view reference) {
  CheckRules rules;
  if (const std::optional<YamlNode> bars = root.get("bars")) KVIST_TRY_VOID(read_bars(*bars, rules.bars));
  const std::optional<YamlNode> references = root.get("references");
  KVIST_TRY_VOID(root.finish());
  if (!references) return rules;
  KVIST_TRY(const auto entries, references->entries());
  for (const auto& [name, node] : entries) {
    // The rules of other references are read too, so that a mistake in them is found at once.
    CheckRules other = rules;
    if (const std::optional<YamlNode> bars = node.get("bars")) KVIST_TRY_VOID(read_bars(*bars, other.bars));
    if (const std::optional<YamlNode> exclude = node.get("exclude")) {
      KVIST_TRY(const std::vector<YamlNode> nodes, exclude->elements());
      for (const YamlNode& entry : nodes) {
        KVIST_TRY(Exclusion exclusion, read_exclusion(entry));
        other.exclusions.push_back(std::move(exclusion));
      }
    }
    KVIST_TRY_VOID(node.finish());
    if (name == reference) rules = std::move(other);
  }
  return rules;
}

}  // namespace kvist::analysis
