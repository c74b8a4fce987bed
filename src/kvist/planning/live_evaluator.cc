#include "kvist/planning/live_evaluator.h"

#include <optional>

#include "kvist/results/records.h"
#include "kvist/sweep/plan.h"

namespace kvist::planning {

Result<LevelFigures> LiveEvaluator::evaluate(const spec::SweepSpec& sweep, const simulation::LevelPlan& level) const {
  const sweep::PlannedLevel planned{
      .mode = arm_, .concurrency = level.concurrency, .repetition = 0, .seed = level.seed};
  LevelFigures figures;
  const auto keep = [&](results::LevelRecord& record) -> Result<void> {
    figures = judged_figures(record, sweep);
    return {};
  };
  KVIST_TRY_VOID(live_->run({&planned, 1}, keep));
  return figures;
}

}  // namespace kvist::planning
