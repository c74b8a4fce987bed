#include "kvist/planning/live_evaluator.h"

#include <optional>

#include "kvist/results/records.h"
#include "kvist/sweep/plan.h"

namespace kvist::planning {

Result<LevelSample> LiveEvaluator::evaluate(const spec::SweepSpec& sweep, const simulation::LevelPlan& level) const {
  const sweep::PlannedLevel planned{
      .mode = arm_, .concurrency = level.concurrency, .repetition = 0, .seed = level.seed};
  LevelSample sample;
  const auto keep = [&](results::LevelRecord& record) -> Result<void> {
    sample.figures = judged_figures(record, sweep);
    return {};
  };
  KVIST_TRY_VOID(live_->run({&planned, 1}, keep));
  return sample;
}

}  // namespace kvist::planning
