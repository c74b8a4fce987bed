// Published figures with which a run is compared: a file of data/reference, or the report.json of another run.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/named_figures.h"
#include "kvist/base/error.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::analysis {

/// Of a file of references or of a report as JSON.
inline constexpr std::uint64_t kMostReferenceBytes = 16ULL << 20;

/// One mode at one level; figures in the order of published_figures().
struct ReferenceFigures {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t concurrency = 0;
  std::array<std::optional<double>, kPublishedFigures> figures;
  std::string valid_runs;  ///< "2/3"; empty if the source does not have it

  [[nodiscard]] std::optional<double> figure(const NamedFigure& named) const;
};

struct Reference {
  std::string name;    ///< the file's, without ".json"
  std::string source;  ///< the document that the figures come from
  std::string note;
  /// "gpu": "H200", ... as in the file, with the keys of nested ones joined: "speculative.method".
  std::vector<std::pair<std::string, std::string>> deployment;
  std::vector<std::uint32_t> concurrencies;  ///< ascending; also those that are only planned
  std::vector<ReferenceFigures> levels;      ///< by concurrency, then as in the file
  /// Values that a plan expects, by key: "round_robin_hit_rate_pct".
  std::vector<std::pair<std::string, double>> expected;

  /// Null if nothing is published.
  [[nodiscard]] const ReferenceFigures* find(spec::RoutingMode mode, std::uint32_t concurrency) const;
  [[nodiscard]] std::vector<spec::RoutingMode> modes() const;
};

/// Reads a file in the format of data/reference/schema.json, or of kvist's reports and the published documents (modes
/// under their keys, or flat levels with "mode"). Unknown keys are ignored. Errors name the file and the level. The
/// file may have at most 16 MiB and 10,000 levels.
[[nodiscard]] Result<Reference> load_reference(const std::string& path);
[[nodiscard]] Result<Reference> parse_reference(std::string_view json, const std::string& name);

}  // namespace kvist::analysis
