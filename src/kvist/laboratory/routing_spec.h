// The routing scenarios and their bars: examples/routing/routing.yaml.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::laboratory {

/// A requirement on the candidate at a level, as a predicate over figures (routing_bars.h has their names).
struct RoutingBar {
  std::string id;
  std::string claim;
  std::string holds_if;
  std::string shows;  ///< evidence, with {{figures}}
};

/// A bar that one scenario requires, with its range of levels.
struct DemandedBar {
  RoutingBar bar;
  std::optional<std::uint32_t> from;   ///< lowest level it is demanded at
  std::optional<std::uint32_t> up_to;  ///< highest

  [[nodiscard]] bool is_demanded_at(std::uint32_t level) const {
    return (!from || level >= *from) && (!up_to || level <= *up_to);
  }
};

/// An explanation why a bar is missed, written by hand.
struct ShortfallNote {
  std::string bar;                    ///< id
  std::vector<std::uint32_t> levels;  ///< empty: all
  std::string because;
};

struct RoutingScenario {
  std::string name;  ///< of its sweep file and results folder
  std::string title;
  std::string shows;
  std::string level_unit = "users";  ///< what a level counts
  bool plot = false;
  std::vector<DemandedBar> bars;
  std::vector<ShortfallNote> notes;

  /// Null if there is no explanation.
  [[nodiscard]] const ShortfallNote* note(const std::string& bar, std::uint32_t level) const;
};

struct RoutingScenarios {
  spec::RoutingMode candidate = spec::RoutingMode::kKv;
  spec::RoutingMode baseline = spec::RoutingMode::kRoundRobin;
  std::vector<RoutingScenario> scenarios;
};

/// Errors: invalid YAML, with its position; a scenario or a note that names a bar which does not exist.
[[nodiscard]] Result<RoutingScenarios> read_routing_scenarios(const YamlNode& root);

}  // namespace kvist::laboratory
