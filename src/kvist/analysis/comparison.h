// Routing modes of a run against its baseline, level by level, paired over seeds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/analysis/named_figures.h"
#include "kvist/analysis/paired.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::analysis {

/// A figure that modes are compared by.
struct ComparedFigure {
  std::string_view key;  ///< of the published JSON (named_figures.h)
  bool less_is_better = true;
  bool is_percentage = false;  ///< compared by differences in points; all others by ratios

  [[nodiscard]] const NamedFigure& named() const { return *find_figure(key); }
  [[nodiscard]] double no_change() const { return is_percentage ? 0 : 1; }
};

inline constexpr std::array<ComparedFigure, 6> kComparedFigures = {{{"ttft_p50_ms"},
                                                                    {"ttft_p95_ms"},
                                                                    {"tpot_p50_ms"},
                                                                    {"latency_p95_ms"},
                                                                    {"tops", false},
                                                                    {"kv_hit_rate_pct", false, true}}};

/// One figure of one level in one mode. Means are over the pairs.
struct FigureComparison {
  std::optional<double> baseline, candidate;  ///< nothing where no pair has the figure
  PairedChange change = {};
  PairedVerdict verdict = PairedVerdict::kOpen;
};

/// One level in one mode against the baseline.
struct LevelComparison {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t concurrency = 0;
  /// Repetitions of this mode whose errors exceeded the method's limit while the baseline's of the same seed did not:
  /// they cannot be compared, and with any of them every figure is worse.
  std::size_t lost_to_errors = 0;
  std::array<FigureComparison, kComparedFigures.size()> figures = {};  ///< in the order of kComparedFigures

  /// Null for a key that is not compared.
  [[nodiscard]] const FigureComparison* find(std::string_view key) const;
};

/// All modes of one run but its baseline.
struct RunComparison {
  std::string name;  ///< of the run
  spec::RoutingMode baseline = spec::RoutingMode::kRoundRobin;
  std::vector<spec::RoutingMode> modes = {};  ///< without the baseline
  std::vector<LevelComparison> levels = {};   ///< by mode, then ascending

  [[nodiscard]] const LevelComparison* find(spec::RoutingMode mode, std::uint32_t concurrency) const;
  /// How often one figure of a mode has this verdict, over all levels.
  [[nodiscard]] std::size_t count(spec::RoutingMode mode, std::size_t figure, PairedVerdict verdict) const;
};

/// Pairs are repetitions with the same seed in both modes (sweep::make_plan gives every mode the same ones), of which
/// both count. `baseline`: nothing for the run's first mode. Errors: a baseline that was not measured.
[[nodiscard]] Result<RunComparison> compare_modes(const RunAnalysis& analysis,
                                                  std::optional<spec::RoutingMode> baseline = {});

/// The same without other modes than `modes`.
[[nodiscard]] RunComparison only(RunComparison comparison, const std::vector<spec::RoutingMode>& modes);

/// Whether there is anything to compare: two modes and two repetitions.
[[nodiscard]] bool is_comparable(const RunAnalysis& analysis);

}  // namespace kvist::analysis
