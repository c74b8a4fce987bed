#include "kvist/sweep/resolve.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/perfmodel/step_time_model.h"
#include "kvist/results/load_input.h"

namespace kvist::sweep {

Result<ResolvedSweep> resolve(const spec::SweepSpec& sweep) {
  ResolvedSweep resolved{.spec = sweep, .input = {}};
  KVIST_TRY(resolved.input, results::load_input(sweep.workload.trace));
  KVIST_TRY_VOID(workload::check_load(sweep.workload, resolved.input));
  for (spec::WorkerSpec& worker : resolved.spec.deployment.workers) {
    auto with_profile = perfmodel::resolve(worker);
    if (!with_profile) {
      return std::unexpected(std::move(with_profile).error().in(fmt::format("worker {}", worker.name)));
    }
    worker = std::move(*with_profile);
  }
  return resolved;
}

}  // namespace kvist::sweep
