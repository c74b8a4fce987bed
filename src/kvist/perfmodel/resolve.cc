// The settings of a worker that follow from its profile.
#include <algorithm>

#include <fmt/format.h>

#include "kvist/perfmodel/coefficients.h"
#include "kvist/perfmodel/gpu_combination.h"
#include "kvist/perfmodel/memory_plan.h"
#include "kvist/perfmodel/profile_library.h"
#include "kvist/perfmodel/step_time_model.h"

namespace kvist::perfmodel {
namespace {

Result<void> resolve_memory(spec::WorkerSpec& worker) {
  KVIST_TRY(const MemoryPlan plan, make_memory_plan(worker));
  KVIST_TRY_VOID(check_memory(worker, plan));
  worker.kv_blocks = plan.kv_blocks;
  if (worker.open.max_model_len) {
    worker.max_model_len = static_cast<std::uint32_t>(std::min<std::uint64_t>(worker.max_model_len, plan.kv_tokens()));
  }
  if (worker.max_model_len > plan.kv_tokens()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("max_model_len: a request of {} tokens does not fit the KV memory, which holds {}",
                            worker.max_model_len, plan.kv_tokens()));
  }
  return {};
}

Result<spec::WorkerSpec> resolve_open(spec::WorkerSpec worker) {
  KVIST_TRY(const GpuCombination combination, GpuCombination::of(worker));
  const EngineBehaviour& engine = combination.engine.behaviour();
  if (worker.open.admission) worker.admission = engine.admission;
  if (worker.open.max_steps_in_flight) worker.max_steps_in_flight = engine.max_steps_in_flight;
  if (worker.open.prefix_deferral) worker.prefix_deferral = engine.prefix_deferral;
  if (worker.open.prefix_when_planned) worker.prefix_when_planned = engine.prefix_when_planned;
  if (worker.open.kv_blocks) KVIST_TRY_VOID(resolve_memory(worker));
  worker.open = {};
  return worker;
}

// The name of the drafter changes nothing there, so nothing else would notice that it is none. An engine that computes
// has drafters of its own, and says which.
Result<spec::WorkerSpec> without_profile(spec::WorkerSpec worker) {
  if (worker.speculation.enabled && !worker.cpu) KVIST_TRY_VOID(library().check_drafter(worker.speculation.drafter));
  return worker;
}

}  // namespace

Result<spec::WorkerSpec> resolve(const spec::WorkerSpec& worker) {
  auto resolved = worker.profile ? resolve_open(worker) : without_profile(worker);
  if (!resolved) return std::unexpected(std::move(resolved).error().in("worker " + worker.name));
  return resolved;
}

}  // namespace kvist::perfmodel
