#include "kvist/planning/level_figures.h"

#include "kvist/analysis/arrival_law.h"

namespace kvist::planning {
namespace {

/// Of the arrivals that were due.
double share_not_served(const results::LevelRecord& level, const spec::WorkloadSpec& workload) {
  if (!workload.trace.file.empty() || !workload.arrivals.is_open()) return 0;
  const analysis::ArrivalTest test =
      analysis::test_arrivals(level, workload.arrivals, workload.arrivals.starts_per_second(level.concurrency));
  const bool any_was_due = test.arrivals + test.refused + test.held_back.not_sent > 0;
  return any_was_due ? 1 - test.share_in_time() : 0;
}

double share_not_ended(const analysis::TurnCounts& turns) {
  const std::size_t all = turns.succeeded + turns.failed + turns.abandoned;
  return all == 0 ? 0 : static_cast<double>(turns.abandoned) / static_cast<double>(all);
}

}  // namespace

LevelFigures figures_of(const analysis::LevelAnalysis& analysis) {
  LevelFigures figures;
  for (const Metric metric : kMetrics) figures[metric] = analysis::figure_of(metric).figure(analysis);
  for (std::size_t i = 0; i < analysis::kHeadlines; ++i) {
    const auto which = static_cast<Headline>(i);
    figures[which] = analysis::headline(which).figure(analysis);
  }
  return figures;
}

LevelFigures judged_figures(const results::LevelRecord& level, const spec::SweepSpec& sweep) {
  const analysis::LevelAnalysis analysis =
      analysis::analyse(level, sweep.method, analysis::schedule_of(sweep.workload));
  LevelFigures figures = figures_of(analysis);
  const double good = (1 - share_not_served(level, sweep.workload)) * (1 - share_not_ended(analysis.window_turns));
  if (good < 1) {
    std::optional<double>& error_pct = figures[Headline::kErrorPct];
    error_pct = 100 - (100 - error_pct.value_or(0)) * good;
  }
  return figures;
}

}  // namespace kvist::planning
