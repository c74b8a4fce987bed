#include "kvist/planning/level_figures.h"

#include "kvist/report/level_figures.h"

namespace kvist::planning {

LevelFigures figures_of(const report::LevelAnalysis& analysis) {
  LevelFigures figures;
  figures[Metric::kTtftP50] = report::figure::ttft_p50_ms(analysis);
  figures[Metric::kTtftP95] = report::figure::ttft_p95_ms(analysis);
  figures[Metric::kTpotP50] = report::figure::tpot_p50_ms(analysis);
  figures[Metric::kTpotP95] = report::figure::tpot_p95_ms(analysis);
  figures[Metric::kLatencyP50] = report::figure::latency_p50_ms(analysis);
  figures[Metric::kLatencyP95] = report::figure::latency_p95_ms(analysis);
  figures[Metric::kThroughput] = report::figure::tops(analysis);
  figures[Metric::kTurnRate] = report::figure::actual_rps(analysis);
  figures[Metric::kErrorPct] = report::figure::error_pct(analysis);
  figures[Metric::kHitRatePct] = report::figure::kv_hit_rate_pct(analysis);
  return figures;
}

}  // namespace kvist::planning
