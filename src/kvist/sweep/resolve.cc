#include "kvist/sweep/resolve.h"

#include "kvist/perfmodel/step_time_model.h"
#include "kvist/results/load_input.h"

namespace kvist::sweep {

Result<ResolvedSweep> resolve(const spec::SweepSpec& sweep) {
  ResolvedSweep resolved{.spec = sweep, .input = {}};
  KVIST_TRY(resolved.input, results::load_input(sweep.workload.trace));
  KVIST_TRY_VOID(workload::check_load(sweep.workload, resolved.input));
  for (spec::WorkerSpec& worker : resolved.spec.deployment.workers) {
    KVIST_TRY(worker, perfmodel::resolve(worker));
  }
  return resolved;
}

}  // namespace kvist::sweep
