// Evaluates a level: the interface on which planning and fitting are based.
#pragma once

#include <optional>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/planning/block_samples.h"
#include "kvist/planning/level_figures.h"
#include "kvist/simulation/level.h"
#include "kvist/spec/sweep.h"
#include "kvist/workload/load_input.h"
#include "kvist/workload/turn_clock.h"

namespace kvist::planning {

/// What one seed gives of a level.
struct LevelSample {
  LevelFigures figures;  ///< of the whole measuring window
  /// If every seed replays the same requests: then blocks of time are samples of the load, and seeds are not.
  std::optional<BlockSamples> blocks = {};
};

/// Maps (deployment and workload, mode, users, seed) to figures. The same arguments give the same figures. `sweep` need
/// not be resolved. Threads: any, several at once.
class LevelEvaluator {
 public:
  virtual ~LevelEvaluator() = default;
  [[nodiscard]] virtual Result<LevelSample> evaluate(const spec::SweepSpec& sweep,
                                                     const simulation::LevelPlan& level) const = 0;
};

/// The shipped evaluator: simulates the level and records only what the figures need. If the workload replays a trace
/// or a recorded run, a closed loop has as many requests (sessions) at once as the level has users; in an open loop a
/// level is a percentage of the recorded rate: 100 is the recorded rate at `speed`.
class SimulatedEvaluator final : public LevelEvaluator {
 public:
  SimulatedEvaluator() = default;
  /// `input`: what the sweep's workload replays (results::load_input). Without `gaps`, which take time and memory, a
  /// level has no ITL.
  explicit SimulatedEvaluator(workload::LoadInput input,
                              workload::TurnClock::Gaps gaps = workload::TurnClock::Gaps::kDrop)
      : input_(std::move(input)), gaps_(gaps) {}

  [[nodiscard]] Result<LevelSample> evaluate(const spec::SweepSpec& sweep,
                                             const simulation::LevelPlan& level) const override;

 private:
  workload::LoadInput input_;
  workload::TurnClock::Gaps gaps_ = workload::TurnClock::Gaps::kDrop;
};

/// The seed of a repetition at a level. It is the same for every deployment and mode, so that they are compared over
/// the same conversations (common random numbers).
[[nodiscard]] std::uint64_t level_seed(const spec::SweepSpec& sweep, std::uint32_t users, std::uint32_t repetition);

}  // namespace kvist::planning
