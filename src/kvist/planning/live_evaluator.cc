#include "kvist/planning/live_evaluator.h"

#include <optional>

#include "kvist/analysis/level_analysis.h"
#include "kvist/results/records.h"
#include "kvist/sweep/plan.h"

namespace kvist::planning {

Result<LevelFigures> LiveEvaluator::evaluate(const spec::SweepSpec& sweep, const simulation::LevelPlan& level) const {
  const sweep::PlannedLevel planned{
      .mode = arm_, .concurrency = level.concurrency, .repetition = 0, .seed = level.seed};
  LevelFigures figures;
  const auto keep = [&](results::LevelRecord& record) -> Result<void> {
    figures = figures_of(analysis::analyse(record, sweep.method, analysis::schedule_of(sweep.workload)));
    return {};
  };
  KVIST_TRY_VOID(live_->run({&planned, 1}, keep));
  return figures;
}

}  // namespace kvist::planning
