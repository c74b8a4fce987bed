#include "kvist/analysis/merged_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace kvist::analysis {
namespace {

/// What has to be equal.
spec::SweepSpec conditions_of(spec::SweepSpec sweep) {
  sweep.name.clear();
  sweep.modes.clear();
  sweep.arms.clear();
  sweep.levels.clear();
  sweep.output_directory.clear();
  sweep.workload.seed = 0;
  sweep.method.repetitions = 1;
  sweep.comparison.stop_when.reset();
  sweep.comparison.order = spec::ArmOrder::kAsListed;
  sweep.deployment.gateway.mode = spec::RoutingMode::kRoundRobin;
  return sweep;
}

std::string difference(const spec::SweepSpec& one, const spec::SweepSpec& other) {
  if (one.deployment != other.deployment) return "deployment";
  if (one.target != other.target) return "target";
  if (one.workload != other.workload) return "workload";
  if (one.method != other.method) return "method";
  if (one.comparison != other.comparison) return "comparison";
  return "simulation";
}

Result<void> check_alike(std::span<const MergedPart> parts) {
  for (const MergedPart& part : parts.subspan(1)) {
    const spec::SweepSpec one = conditions_of(parts.front().sweep);
    const spec::SweepSpec other = conditions_of(part.sweep);
    if (parts.front().head.simulated != part.head.simulated) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is {}, {} is {}", parts.front().name, part.head.simulated ? "live" : "simulated",
                              part.name, part.head.simulated ? "simulated" : "live"));
    }
    if (one == other) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} and {} were not measured alike: their {} differs",
                                                         parts.front().name, part.name, difference(one, other)));
  }
  return {};
}

void add_arms(spec::SweepSpec& merged, const spec::SweepSpec& part) {
  std::vector<spec::ArmSpec> arms = spec::arms_of(merged);
  for (const spec::ArmSpec& arm : spec::arms_of(part)) {
    if (std::ranges::find(arms, arm.arm, &spec::ArmSpec::arm) == arms.end()) arms.push_back(arm);
  }
  const bool all_modes = merged.arms.empty() && part.arms.empty();
  merged.modes.clear();
  merged.arms.clear();
  if (!all_modes) {
    merged.arms = std::move(arms);
    return;
  }
  for (const spec::ArmSpec& arm : arms) merged.modes.push_back(*arm.mode);
}

/// "round_robin at 50, 60, 70, 3 times each; kv at 50, 1 to 2 times".
std::string levels_in_words(const std::vector<results::LevelHead>& heads) {
  std::vector<spec::Arm> arms;
  for (const results::LevelHead& head : heads) {
    if (std::ranges::find(arms, head.mode) == arms.end()) arms.push_back(head.mode);
  }
  std::string text;
  for (const spec::Arm& arm : arms) {
    std::map<std::uint32_t, std::size_t> times;
    for (const results::LevelHead& head : heads) {
      if (head.mode == arm) ++times[head.concurrency];
    }
    std::string levels;
    std::size_t least = times.begin()->second;
    std::size_t most = 0;
    for (const auto& [concurrency, count] : times) {
      levels += fmt::format("{}{}", levels.empty() ? "" : ", ", concurrency);
      least = std::min(least, count);
      most = std::max(most, count);
    }
    text += fmt::format("{}{} at {}", text.empty() ? "" : "; ", arm.name(), levels);
    if (most > 1)
      text += least == most ? fmt::format(", {} times each", most) : fmt::format(", {} to {} times", least, most);
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

Result<MergedRun> merge_runs(std::span<const MergedPart> parts) {
  if (parts.empty()) return fail(ErrorCode::kInvalidArgument, "nothing to merge");
  KVIST_TRY_VOID(check_alike(parts));
  MergedRun run{.sweep = parts.front().sweep, .simulated = parts.front().head.simulated, .levels = {}};
  std::map<std::uint32_t, std::vector<std::uint64_t>> seeds;  // by concurrency; the place is the repetition
  std::set<std::tuple<std::string, std::uint32_t, std::uint64_t>> measured;
  std::set<std::uint32_t> levels;
  std::size_t repetitions = 1;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    add_arms(run.sweep, parts[part].sweep);
    for (const results::LevelHead& head : parts[part].levels) {
      if (!measured.emplace(head.mode.name(), head.concurrency, head.seed).second) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("{}: {} at {} was measured with seed {} before", parts[part].name, head.mode.name(),
                                head.concurrency, head.seed));
      }
      std::vector<std::uint64_t>& known = seeds[head.concurrency];
      auto place = std::ranges::find(known, head.seed);
      if (place == known.end()) place = known.insert(known.end(), head.seed);
      run.levels.push_back(
          {.part = part, .id = head.id, .repetition = static_cast<std::uint32_t>(place - known.begin())});
      repetitions = std::max(repetitions, known.size());
      levels.insert(head.concurrency);
    }
  }
  run.sweep.levels.assign(levels.begin(), levels.end());
  run.sweep.method.repetitions = static_cast<std::uint32_t>(repetitions);
  return run;
}

std::vector<results::RunSource> sources_of(std::span<const MergedPart> parts) {
  std::vector<results::RunSource> sources;
  for (const MergedPart& part : parts) {
    if (!part.head.sources.empty()) {
      sources.insert(sources.end(), part.head.sources.begin(), part.head.sources.end());
    } else {
      sources.push_back({.place = part.name,
                         .name = part.head.name,
                         .started_utc = part.head.started_utc,
                         .levels = levels_in_words(part.levels)});
    }
  }
  return sources;
}

}  // namespace kvist::analysis
