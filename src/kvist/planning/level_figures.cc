#include "kvist/planning/level_figures.h"

#include "kvist/analysis/level_figures.h"

namespace kvist::planning {

LevelFigures figures_of(const analysis::LevelAnalysis& analysis) {
  LevelFigures figures;
  figures[Metric::kTtftP50] = analysis::figure::ttft_p50_ms(analysis);
  figures[Metric::kTtftP95] = analysis::figure::ttft_p95_ms(analysis);
  figures[Metric::kTpotP50] = analysis::figure::tpot_p50_ms(analysis);
  figures[Metric::kTpotP95] = analysis::figure::tpot_p95_ms(analysis);
  figures[Metric::kLatencyP50] = analysis::figure::latency_p50_ms(analysis);
  figures[Metric::kLatencyP95] = analysis::figure::latency_p95_ms(analysis);
  figures[Metric::kThroughput] = analysis::figure::tops(analysis);
  figures[Metric::kTurnRate] = analysis::figure::actual_rps(analysis);
  figures[Metric::kErrorPct] = analysis::figure::error_pct(analysis);
  figures[Metric::kHitRatePct] = analysis::figure::kv_hit_rate_pct(analysis);
  return figures;
}

}  // namespace kvist::planning
