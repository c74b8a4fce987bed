#include "kvist/sweep/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "kvist/base/random.h"
#include "kvist/level/level_procedure.h"

namespace kvist::sweep {
namespace {

std::uint64_t seed_of(std::uint64_t run_seed, std::uint32_t concurrency, std::uint32_t repetition) {
  // The first repetition has the seed of a sweep without repetitions, so that more of them add to its results.
  if (repetition == 0) return mix_seed({run_seed, seed_part("level"), concurrency});
  return mix_seed({run_seed, seed_part("level"), concurrency, seed_part("repetition"), repetition});
}

std::vector<PlannedLevel> levels_of(const spec::SweepSpec& sweep, const spec::Arm& arm, std::uint32_t repetition) {
  const bool goes_on = sweep.method.between_levels == spec::BetweenLevels::kContinue;
  std::vector<PlannedLevel> levels;
  for (const std::uint32_t concurrency : sweep.levels) {
    const std::uint32_t seeding = goes_on ? sweep.levels.front() : concurrency;
    levels.push_back({.mode = arm,
                      .concurrency = concurrency,
                      .repetition = repetition,
                      .seed = seed_of(sweep.workload.seed, seeding, repetition)});
  }
  return levels;
}

/// The order of the arms for one load.
std::vector<spec::ArmSpec> ordered_arms(const spec::SweepSpec& sweep, std::uint32_t concurrency,
                                        std::uint32_t repetition) {
  std::vector<spec::ArmSpec> arms = spec::arms_of(sweep);
  if (sweep.comparison.order == spec::ArmOrder::kAbba && repetition % 2 == 1) std::ranges::reverse(arms);
  if (sweep.comparison.order == spec::ArmOrder::kRandom) {
    RandomStream random(mix_seed({sweep.workload.seed, seed_part("order of arms"), concurrency, repetition}));
    for (std::size_t left = arms.size(); left > 1; --left) {
      const std::int64_t drawn = random.uniform_int(0, static_cast<std::int64_t>(left) - 1);
      std::swap(arms[left - 1], arms[static_cast<std::size_t>(drawn)]);
    }
  }
  return arms;
}

void add_alternating(std::vector<PlannedMode>& plan, const spec::SweepSpec& sweep, std::uint32_t repetition) {
  const bool goes_on = sweep.method.between_levels == spec::BetweenLevels::kContinue;
  const std::size_t size = goes_on ? sweep.levels.size() : 1;
  for (std::size_t first = 0; first < sweep.levels.size(); first += size) {
    for (const spec::ArmSpec& arm : ordered_arms(sweep, sweep.levels[first], repetition)) {
      const std::vector<PlannedLevel> all = levels_of(sweep, arm.arm, repetition);
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      plan.push_back({.mode = arm.arm, .levels = {begin, begin + static_cast<std::ptrdiff_t>(size)}});
    }
  }
}

}  // namespace

std::vector<PlannedMode> make_plan(const spec::SweepSpec& sweep) {
  std::vector<PlannedMode> plan;
  if (sweep.comparison.alternates()) {
    for (std::uint32_t r = 0; r < sweep.method.repetitions; ++r) add_alternating(plan, sweep, r);
    return plan;
  }
  for (const spec::ArmSpec& arm : spec::arms_of(sweep)) {
    PlannedMode& planned = plan.emplace_back(PlannedMode{.mode = arm.arm, .levels = {}});
    for (std::uint32_t repetition = 0; repetition < sweep.method.repetitions; ++repetition) {
      std::ranges::move(levels_of(sweep, arm.arm, repetition), std::back_inserter(planned.levels));
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

std::string title_of(const PlannedLevel& level, std::uint32_t repetitions) {
  const std::string name = fmt::format("{} {}", spec::to_string(level.mode), level.concurrency);
  return repetitions > 1 ? fmt::format("{} ({}/{})", name, level.repetition + 1, repetitions) : name;
}

std::string describe_size(const spec::SweepSpec& sweep) {
  std::string size = fmt::format("{} {} x {} levels", spec::arms_of(sweep).size(),
                                 sweep.arms.empty() ? "modes" : "arms", sweep.levels.size());
  if (sweep.method.repetitions > 1) size += fmt::format(" x {} repetitions", sweep.method.repetitions);
  return size;
}

Duration measuring_time(const spec::SweepSpec& sweep) {
  return static_cast<Duration::rep>(spec::arms_of(sweep).size() * sweep.levels.size() * sweep.method.repetitions) *
         level::measuring_time(sweep.method);
}

}  // namespace kvist::sweep
