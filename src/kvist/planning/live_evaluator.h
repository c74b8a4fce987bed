// Evaluates levels by measuring them.
#pragma once

#include <functional>
#include <string>

#include "kvist/planning/level_evaluator.h"
#include "kvist/spec/arm.h"
#include "kvist/sweep/live_levels.h"

namespace kvist::planning {

/// Measures a level of one arm on the deployment that `live` has ready, which stays the same for all levels of the
/// search. It ignores the mode of the plan, because the arm is what is measured. Unlike other evaluators it does not
/// give the same figures twice, so a decision needs as many seeds as its confidence asks for. Threads: one; a search
/// that uses it has to ask for one.
class LiveEvaluator final : public LevelEvaluator {
 public:
  /// `live` has to outlive it; the arm has begun on it.
  LiveEvaluator(sweep::LiveLevels& live, spec::Arm arm) : live_(&live), arm_(std::move(arm)) {}

  [[nodiscard]] Result<LevelSample> evaluate(const spec::SweepSpec& sweep,
                                             const simulation::LevelPlan& level) const override;

 private:
  sweep::LiveLevels* live_;
  spec::Arm arm_;
};

}  // namespace kvist::planning
