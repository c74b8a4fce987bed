// Who says what a level brings: the one thing that planning and fitting ask for.
#pragma once

#include "kvist/base/error.h"
#include "kvist/planning/level_figures.h"
#include "kvist/simulation/level.h"
#include "kvist/spec/sweep.h"

namespace kvist::planning {

/// (deployment and workload, mode, users, seed) -> figures. The same arguments give the same figures, on any thread;
/// several threads ask at once. `sweep` need not be resolved.
class LevelEvaluator {
 public:
  virtual ~LevelEvaluator() = default;
  [[nodiscard]] virtual Result<LevelFigures> evaluate(const spec::SweepSpec& sweep,
                                                      const simulation::LevelPlan& level) const = 0;
};

/// The shipped one: simulates the level, with nothing recorded that the figures do not need.
class SimulatedEvaluator final : public LevelEvaluator {
 public:
  [[nodiscard]] Result<LevelFigures> evaluate(const spec::SweepSpec& sweep,
                                              const simulation::LevelPlan& level) const override;
};

/// The seed of repetition `repetition` at a level: the same for every deployment and mode, so that two of them are
/// compared over the same conversations (common random numbers).
[[nodiscard]] std::uint64_t level_seed(const spec::SweepSpec& sweep, std::uint32_t users, std::uint32_t repetition);

}  // namespace kvist::planning
