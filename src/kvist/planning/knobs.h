// What each setting of a deployment is worth in users.
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

/// One setting changed, the rest as it is.
struct KnobChange {
  std::string knob;  ///< "batch size", "routing mode", ...
  std::string from;  ///< the deployment's own setting
  std::string to;
  spec::SweepSpec sweep;  ///< with the change
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
};

/// Every change worth trying from this deployment under `mode`: batch size and chunk budget halved and doubled, memory
/// fractions, admission, prefix deferral, overlap scheduling, speculation, routing modes, workers one fewer and one
/// more, and, with a profile, the other GPU kind, other tensor parallelism, graph padding.
[[nodiscard]] std::vector<KnobChange> knob_changes(const spec::SweepSpec& sweep, spec::RoutingMode mode);

/// What one change brings.
struct KnobGain {
  std::string knob;
  std::string from;
  std::string to;
  std::uint32_t gpus = 0;
  std::optional<Capacity> capacity;  ///< nothing where the change cannot be applied
  std::string impossible;            ///< then why
  double users = 0;                  ///< more than the deployment as it is
  double users_low = 0;              ///< the least and the most that the gain may be, by both intervals
  double users_high = 0;
  double users_per_gpu = 0;  ///< more per GPU than the deployment as it is
};

/// The deployment as it is under one mode, and what each change brings.
struct KnobTable {
  Capacity base;
  std::uint32_t gpus = 0;
  std::vector<KnobGain> gains;  ///< by users gained, most first; what cannot be applied last
};

/// Whether a deployment can run at all: nothing, or the reason (out of memory, with what would fit).
using Feasibility = std::function<Result<void>(const spec::SweepSpec&)>;
/// That of the GPU profiles: perfmodel::resolve() on every worker.
[[nodiscard]] Result<void> profiles_resolve(const spec::SweepSpec& sweep);

/// Finds the capacity after each change, all of them in parallel; `base` is that of the deployment as it is.
[[nodiscard]] Result<KnobTable> measure_knobs(const LevelEvaluator& evaluator, const Feasibility& feasible,
                                              const spec::SweepSpec& sweep, const Capacity& base, const Slo& slo,
                                              const CapacityOptions& options);

}  // namespace kvist::planning
