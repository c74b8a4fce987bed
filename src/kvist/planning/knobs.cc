#include "kvist/planning/knobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "kvist/perfmodel/step_time_model.h"

namespace kvist::planning {
namespace {

/// A setting changes the capacity by some percent, so the search begins at the deployment's own and takes small steps.
CapacityOptions options_near(const CapacityOptions& options, const Capacity& base) {
  CapacityOptions near = options;
  near.start_users = std::max(1U, base.users);
  near.growth = 1.3;
  near.probes_below = std::min(2U, options.probes_below);
  near.probes_above = 0;
  return near;
}

KnobGain gain_of(const KnobChange& change, const Result<Capacity>& after, const Capacity& base,
                 std::uint32_t base_gpus) {
  KnobGain gain{.knob = change.knob,
                .from = change.from,
                .to = change.to,
                .gpus = gpus_of(change.sweep.deployment),
                .capacity = std::nullopt,
                .impossible = {}};
  if (!after) {
    gain.impossible = after.error().message;
    return gain;
  }
  if (after->unknown) {
    gain.impossible = unknown_text(*after->unknown, "user");
    return gain;
  }
  gain.capacity = *after;
  gain.users = static_cast<double>(after->users) - static_cast<double>(base.users);
  constexpr double kOpen = std::numeric_limits<double>::infinity();
  gain.users_low = base.at_limit ? -kOpen : static_cast<double>(after->surely) - static_cast<double>(base.at_most);
  gain.users_high = after->at_limit ? kOpen : static_cast<double>(after->at_most) - static_cast<double>(base.surely);
  gain.users_per_gpu = static_cast<double>(after->users) / gain.gpus - static_cast<double>(base.users) / base_gpus;
  return gain;
}

}  // namespace

Result<void> profiles_resolve(const spec::SweepSpec& sweep) {
  for (const spec::WorkerSpec& worker : sweep.deployment.workers) KVIST_TRY_VOID(perfmodel::resolve(worker));
  return {};
}

Result<KnobTable> measure_knobs(const LevelEvaluator& evaluator, const Feasibility& feasible,
                                const spec::SweepSpec& sweep, const Capacity& base, const Slo& slo,
                                const CapacityOptions& options) {
  const std::optional<spec::RoutingMode> mode = base.mode.mode();
  if (!mode) return fail(ErrorCode::kInvalidArgument, base.mode.name() + " is not a routing mode of a simulation");
  if (base.unknown) return fail(ErrorCode::kUnavailable, "--knobs: " + unknown_text(*base.unknown, "user"));
  const std::vector<KnobChange> changes = knob_changes(sweep, *mode);
  std::vector<std::optional<Result<Capacity>>> found(changes.size());
  run_searches(changes.size(), options_near(options, base), [&](std::size_t i, const CapacityOptions& own) {
    const KnobChange& change = changes[i];
    const Result<void> possible = feasible(change.sweep);
    found[i] = possible ? find_capacity(evaluator, change.sweep, change.mode, slo, own)
                        : Result<Capacity>(std::unexpected(possible.error()));
    if (!own.progress) return;
    own.progress(
        fmt::format("{}: {} -> {}: {}", change.knob, change.from, change.to,
                    *found[i] && !(*found[i])->unknown ? fmt::format("{} users", (*found[i])->users) : "not possible"));
  });
  KnobTable table{.base = base, .gpus = gpus_of(sweep.deployment), .gains = {}};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    table.gains.push_back(gain_of(changes[i], *found[i], base, table.gpus));
  }
  std::ranges::stable_sort(table.gains, [](const KnobGain& a, const KnobGain& b) {
    if (a.capacity.has_value() != b.capacity.has_value()) return a.capacity.has_value();
    return a.users > b.users;
  });
  return table;
}

}  // namespace kvist::planning
