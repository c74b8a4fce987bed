// Evaluates a level: the interface on which planning and fitting are based.
#pragma once

#include "kvist/base/error.h"
#include "kvist/planning/level_figures.h"
#include "kvist/simulation/level.h"
#include "kvist/spec/sweep.h"

namespace kvist::planning {

/// Maps (deployment and workload, mode, users, seed) to figures. The same arguments give the same figures. `sweep` need
/// not be resolved. Threads: any, several at once.
class LevelEvaluator {
 public:
  virtual ~LevelEvaluator() = default;
  [[nodiscard]] virtual Result<LevelFigures> evaluate(const spec::SweepSpec& sweep,
                                                      const simulation::LevelPlan& level) const = 0;
};

/// Simulates the level, and records only what the figures need.
class SimulatedEvaluator final : public LevelEvaluator {
 public:
  [[nodiscard]] Result<LevelFigures> evaluate(const spec::SweepSpec& sweep,
                                              const simulation::LevelPlan& level) const override;
};

/// The seed of a repetition at a level. It is the same for every deployment and mode, so that they are compared over
/// the same conversations (common random numbers).
[[nodiscard]] std::uint64_t level_seed(const spec::SweepSpec& sweep, std::uint32_t users, std::uint32_t repetition);

}  // namespace kvist::planning
