#include "kvist/sweep/plan.h"

#include <fmt/format.h>

#include "kvist/base/random.h"
#include "kvist/level/level_procedure.h"

namespace kvist::sweep {
namespace {

std::uint64_t seed_of(std::uint64_t run_seed, std::uint32_t concurrency, std::uint32_t repetition) {
  // The first repetition has the seed of a sweep without repetitions, so that more of them add to its results.
  if (repetition == 0) return mix_seed({run_seed, seed_part("level"), concurrency});
  return mix_seed({run_seed, seed_part("level"), concurrency, seed_part("repetition"), repetition});
}

}  // namespace

std::vector<PlannedMode> make_plan(const spec::SweepSpec& sweep) {
  std::vector<PlannedMode> plan;
  for (const spec::RoutingMode mode : sweep.modes) {
    PlannedMode& planned = plan.emplace_back(PlannedMode{.mode = mode, .levels = {}});
    for (std::uint32_t repetition = 0; repetition < sweep.method.repetitions; ++repetition) {
      const bool goes_on = sweep.method.between_levels == spec::BetweenLevels::kContinue;
      for (const std::uint32_t concurrency : sweep.levels) {
        const std::uint32_t seeding = goes_on ? sweep.levels.front() : concurrency;
        planned.levels.push_back({.mode = mode,
                                  .concurrency = concurrency,
                                  .repetition = repetition,
                                  .seed = seed_of(sweep.workload.seed, seeding, repetition)});
      }
    }
  }
  return plan;
}

std::vector<std::span<const PlannedLevel>> loads_of(const PlannedMode& mode, const spec::SweepSpec& sweep) {
  const bool goes_on = sweep.method.between_levels == spec::BetweenLevels::kContinue;
  const std::size_t size = goes_on ? sweep.levels.size() : 1;
  std::vector<std::span<const PlannedLevel>> loads;
  for (std::size_t first = 0; first < mode.levels.size(); first += size) {
    loads.push_back(std::span(mode.levels).subspan(first, size));
  }
  return loads;
}

std::string describe(const PlannedLevel& level, std::uint32_t repetitions) {
  const std::string name = fmt::format("{} {}", spec::to_string(level.mode), level.concurrency);
  return repetitions > 1 ? fmt::format("{} ({}/{})", name, level.repetition + 1, repetitions) : name;
}

std::string describe_size(const spec::SweepSpec& sweep) {
  std::string size = fmt::format("{} modes x {} levels", sweep.modes.size(), sweep.levels.size());
  if (sweep.method.repetitions > 1) size += fmt::format(" x {} repetitions", sweep.method.repetitions);
  return size;
}

Duration measuring_time(const spec::SweepSpec& sweep) {
  return static_cast<Duration::rep>(sweep.modes.size() * sweep.levels.size() * sweep.method.repetitions) *
         level::measuring_time(sweep.method);
}

}  // namespace kvist::sweep
