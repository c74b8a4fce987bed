// The gain in users of changing each setting of a deployment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/planning/capacity.h"
#include "kvist/spec/sweep.h"

namespace kvist::planning {

/// A change of one setting, with all others unchanged.
struct KnobChange {
  std::string knob;  ///< "batch size", "routing mode", ...
  std::string from;  ///< the deployment's own setting
  std::string to;
  spec::SweepSpec sweep;  ///< with the change
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
};

/// The changes that are tried for a deployment in mode `mode`: batch size and chunk budget halved and doubled, memory
/// fractions, admission, prefix deferral, overlap scheduling, speculation, routing modes, workers one fewer and one
/// more, and, with a profile, the other GPU kind, other tensor parallelism, graph padding.
[[nodiscard]] std::vector<KnobChange> knob_changes(const spec::SweepSpec& sweep, spec::RoutingMode mode);

/// The gain of one change.
struct KnobGain {
  std::string knob;
  std::string from;
  std::string to;
  std::uint32_t gpus = 0;
  std::optional<Capacity> capacity;  ///< nothing if the change cannot be applied
  std::string impossible;            ///< the reason in that case
  double users = 0;                  ///< gain over the unchanged deployment
  /// Bounds of the gain, by both intervals; infinite where one of the two searches ended at its limit.
  double users_low = 0;
  double users_high = 0;
  double users_per_gpu = 0;  ///< gain per GPU over the unchanged deployment
};

/// The unchanged deployment in one mode, and the gain of each change.
struct KnobTable {
  Capacity base;
  std::uint32_t gpus = 0;
  std::vector<KnobGain> gains;  ///< by users gained, most first; changes that cannot be applied come last
};

/// Whether a deployment can run at all: nothing, or the reason (out of memory, with what would fit).
using Feasibility = std::function<Result<void>(const spec::SweepSpec&)>;
/// The feasibility by GPU profiles: perfmodel::resolve() for every worker.
[[nodiscard]] Result<void> profiles_resolve(const spec::SweepSpec& sweep);

/// Finds the capacity after each change, all in parallel. `base` is that of the unchanged deployment.
[[nodiscard]] Result<KnobTable> measure_knobs(const LevelEvaluator& evaluator, const Feasibility& feasible,
                                              const spec::SweepSpec& sweep, const Capacity& base, const Slo& slo,
                                              const CapacityOptions& options);

}  // namespace kvist::planning
