// A level that was measured several times with different seeds: one analysis of all repetitions, and the spread of the
// figures.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "kvist/analysis/level_analysis.h"
#include "kvist/analysis/timeline_view.h"
#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {

/// A figure of a level; nothing if the level is missing or does not have the figure.
using LevelFigure = std::optional<double> (*)(const LevelAnalysis&);

/// One measurement of a level as a report keeps it, without its turns.
struct Measurement {
  results::LevelRecord record;  ///< without turns and timelines
  LevelAnalysis analysis;
  TimelineView timelines;  ///< condensed; empty if none were recorded
};

/// Analyses a level. The result does not refer to it. Independent levels may be measured on different threads. Without
/// `caches` it stays unknown what they could have saved, and they raise no objection to a comparison.
[[nodiscard]] Measurement measure(const results::LevelRecord& level, const spec::MethodSpec& method,
                                  const CacheContext* caches = nullptr, Schedule schedule = Schedule::kNone);

/// A figure over repetitions, in the figure's unit.
struct Spread {
  std::size_t count = 0;  ///< repetitions that have the figure
  double mean = 0;
  double standard_deviation = 0;  ///< of the sample (n - 1); 0 if count < 2
  double min = 0;
  double max = 0;
};

/// One level in one mode: its repetitions and their common analysis.
struct MeasuredLevel {
  /// The record of the first repetition, but with the workers' counters summed, the means and maxima of gauges, the
  /// worst client figures, and the snapshots and remarks of all repetitions.
  results::LevelRecord record;
  /// Means over the repetitions that count, sums of counts.
  LevelAnalysis analysis;
  std::vector<Measurement> repetitions;  ///< ascending
  /// The repetitions simulate the same recorded requests: their seeds change only texts. So they are one sample of the
  /// load and not several, and no interval comes from their spread.
  bool same_requests = false;

  /// The published rule: repetitions with more errors than the method's limit are left out, unless all have more.
  [[nodiscard]] bool counts(const Measurement& repetition) const {
    return analysis.excluded || !repetition.analysis.excluded;
  }
  [[nodiscard]] std::size_t counted() const;
  /// Nothing if no repetition that counts has the figure.
  [[nodiscard]] std::optional<Spread> spread(LevelFigure figure) const;
};

/// The repetition whose timelines a report shows. Of those that have timelines it is the one with the highest TTFT p95,
/// because its spikes need an explanation.
[[nodiscard]] const Measurement& timeline_shown(const MeasuredLevel& level);

/// Requires: at least one repetition, all of one level in one mode.
[[nodiscard]] MeasuredLevel merge_repetitions(std::vector<Measurement> repetitions);

}  // namespace kvist::analysis
