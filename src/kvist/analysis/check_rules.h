// How far a run may deviate from published figures: the bars as data, and which levels are excluded and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/analysis/named_figures.h"
#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::analysis {

/// The mean absolute deviation of one figure over the levels of a table.
struct Bar {
  const NamedFigure* figure = nullptr;
  double within_pct = 0;
  std::optional<std::uint32_t> up_to;  ///< levels above it are compared, but do not count for the bar
  /// Levels with more users than batch slots do not count for the bar. There the published value must lie within the
  /// range of the repetitions.
  bool range_beyond_slots = false;
  std::string reason;  ///< for up_to
};

/// A level that is compared, but does not count for a bar.
struct Exclusion {
  std::optional<spec::RoutingMode> mode;  ///< nothing: every mode
  std::uint32_t concurrency = 0;
  std::vector<const NamedFigure*> figures;  ///< empty: all
  std::string reason;
};

struct CheckRules {
  std::vector<Bar> bars;
  std::vector<Exclusion> exclusions;

  [[nodiscard]] const Bar* bar(const NamedFigure& figure) const;
  /// Null if the level is not excluded for this figure.
  [[nodiscard]] const Exclusion* exclusion(spec::RoutingMode mode, std::uint32_t concurrency,
                                           const NamedFigure& figure) const;
};

/// Reads the rules for one reference from a rules file (examples/experiments/bars.yaml). The file has `bars` for all
/// references and, under `references` by name, bars that replace those and what to `exclude`. A reference that the file
/// does not name has the common bars.
[[nodiscard]] Result<CheckRules> read_check_rules(const YamlNode& root, std::string_view reference);

}  // namespace kvist::analysis
