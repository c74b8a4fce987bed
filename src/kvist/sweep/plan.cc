#include "kvist/sweep/plan.h"

#include "kvist/base/random.h"

namespace kvist::sweep {

std::vector<PlannedMode> make_plan(const spec::SweepSpec& sweep) {
  std::vector<PlannedMode> plan;
  for (const spec::RoutingMode mode : sweep.modes) {
    PlannedMode& planned = plan.emplace_back(PlannedMode{.mode = mode, .levels = {}});
    for (const std::uint32_t concurrency : sweep.levels) {
      const std::uint64_t seed = mix_seed({sweep.workload.seed, seed_part("level"), concurrency});
      planned.levels.push_back({.mode = mode, .concurrency = concurrency, .seed = seed});
    }
  }
  return plan;
}

Duration measuring_time(const spec::MethodSpec& method) {
  return method.warmup + method.snapshots * method.snapshot_interval;
}

Duration measuring_time(const spec::SweepSpec& sweep) {
  return static_cast<Duration::rep>(sweep.modes.size() * sweep.levels.size()) * measuring_time(sweep.method);
}

}  // namespace kvist::sweep
