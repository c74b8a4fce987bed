// Routing modes of a run against its baseline, level by level, paired over seeds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/paired.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"
#include "kvist/spec/arm.h"

namespace kvist::analysis {

/// A figure that modes are compared by.
struct ComparedFigure {
  std::string_view key;  ///< in JSON
  Headline which = Headline::kTtftP50;

  [[nodiscard]] const HeadlineFigure& figure() const { return headline(which); }
  /// Compared by differences in points; all others by ratios.
  [[nodiscard]] bool is_percentage() const { return figure().is_percentage(); }
  [[nodiscard]] double no_change() const { return is_percentage() ? 0 : 1; }
};

inline constexpr std::array<ComparedFigure, 6> kComparedFigures = {{{"ttft_p50_ms", Headline::kTtftP50},
                                                                    {"ttft_p95_ms", Headline::kTtftP95},
                                                                    {"tpot_p50_ms", Headline::kTpotP50},
                                                                    {"latency_p95_ms", Headline::kLatencyP95},
                                                                    {"tops", Headline::kThroughput},
                                                                    {"kv_hit_rate_pct", Headline::kHitRatePct}}};

/// One figure of one level in one mode. Means are over the pairs.
struct FigureComparison {
  std::optional<double> baseline, candidate;  ///< nothing if no pair has the figure
  PairedChange change = {};
  PairedVerdict verdict = PairedVerdict::kOpen;
  /// The smallest change that would have been found, in percent; in points for a percentage. Nothing for a single pair.
  std::optional<double> detectable = {};
};

/// One level in one mode against the baseline.
struct LevelComparison {
  spec::Arm mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t concurrency = 0;
  /// The number of repetitions of this mode whose errors exceeded the method's limit while those of the baseline with
  /// the same seed did not. They cannot be compared. If there are any, the verdict on every figure is "worse".
  std::size_t lost_to_errors = 0;
  /// Why the level must not be compared; then it has no figures.
  std::vector<std::string> refused = {};
  std::array<FigureComparison, kComparedFigures.size()> figures = {};  ///< in the order of kComparedFigures

  /// Null for a key that is not compared.
  [[nodiscard]] const FigureComparison* find(std::string_view key) const;
};

/// All modes of one run except its baseline.
struct RunComparison {
  std::string name;  ///< of the run
  spec::Arm baseline = spec::RoutingMode::kRoundRobin;
  std::vector<spec::Arm> modes = {};         ///< without the baseline
  std::vector<LevelComparison> levels = {};  ///< by mode, then ascending

  [[nodiscard]] const LevelComparison* find(const spec::Arm& mode, std::uint32_t concurrency) const;
  /// The number of levels at which a figure of a mode has this verdict.
  [[nodiscard]] std::size_t count(const spec::Arm& mode, std::size_t figure, PairedVerdict verdict) const;
};

/// Compares the modes over pairs. A pair is two repetitions with the same seed in both modes (sweep::make_plan gives
/// every mode the same seeds), both of which count. Without `baseline` the run's first mode is used. Errors: a baseline
/// that was not measured.
[[nodiscard]] Result<RunComparison> compare_modes(const RunAnalysis& analysis, std::optional<spec::Arm> baseline = {});

/// What speaks against comparing a level of two arms, repetition by repetition; empty if nothing does.
[[nodiscard]] std::vector<std::string> objections_to_level(const MeasuredLevel& baseline,
                                                           const MeasuredLevel& candidate);
/// All objections of a run, each once: "kv at 24: ...".
[[nodiscard]] std::vector<std::string> refusals(const RunAnalysis& analysis);

/// The comparison with `modes` only.
[[nodiscard]] RunComparison only(RunComparison comparison, const std::vector<spec::Arm>& modes);

/// Whether there is anything to compare: two modes and two repetitions, with requests of their own.
[[nodiscard]] bool is_comparable(const RunAnalysis& analysis);

}  // namespace kvist::analysis
