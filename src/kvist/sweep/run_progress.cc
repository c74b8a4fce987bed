#include "kvist/sweep/run_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "kvist/base/version.h"
#include "kvist/base/yaml.h"
#include "kvist/sweep/machine.h"

namespace kvist::sweep {
namespace {

std::vector<spec::Arm> names_of(const spec::SweepSpec& sweep) {
  std::vector<spec::Arm> arms;
  for (const spec::ArmSpec& arm : spec::arms_of(sweep)) arms.push_back(arm.arm);
  return arms;
}

std::vector<PlannedLevel> flat(const std::vector<PlannedMode>& plan) {
  std::vector<PlannedLevel> levels;
  for (const PlannedMode& stretch : plan) levels.insert(levels.end(), stretch.levels.begin(), stretch.levels.end());
  return levels;
}

bool is_that(const results::LevelHead& head, const PlannedLevel& planned) {
  return head.mode == planned.mode && head.concurrency == planned.concurrency &&
         head.repetition == planned.repetition && head.seed == planned.seed;
}

std::string database_of(const std::string& directory) {
  return (std::filesystem::path(directory) / "results.sqlite").string();
}

// Levels of two versions, or of two machines, are no comparison. Virtual time is the same on every machine.
Result<void> check_same_measurer(const results::RunRecord& head, const std::string& path) {
  const auto differs = [&](std::string_view what, const std::string& then, const std::string& now) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: was begun with {} {}, and this is {}: their levels are no comparison; begin another sweep",
                    path, what, then, now));
  };
  if (head.kvist_version != kVersion) return differs("kvist", head.kvist_version, std::string(kVersion));
  if (head.simulated) return {};
  const std::map<std::string, std::string> machine = describe_machine();
  for (const char* const key : {"processor", "cores"}) {
    const auto then = head.machine.find(key);
    const auto now = machine.find(key);
    if (then != head.machine.end() && now != machine.end() && then->second != now->second)
      return differs(key, then->second, now->second);
  }
  return {};
}

}  // namespace

RunProgress::RunProgress(const spec::SweepSpec& sweep) : sweep_(sweep) {
  if (sweep.comparison.stop_when) watch_.emplace(*sweep.comparison.stop_when, names_of(sweep));
}

Result<void> RunProgress::take_over(results::Store& store, std::int64_t run, const std::vector<PlannedMode>& plan) {
  const std::vector<PlannedLevel> planned = flat(plan);
  KVIST_TRY(const std::vector<results::LevelHead> heads, store.levels(run));
  for (const results::LevelHead& head : heads) {
    const auto position = static_cast<std::size_t>(head.position);
    if (position < planned.size() && is_that(head, planned[position])) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the level at position {} is not the one of the plan: the results are of another sweep, "
                            "or of a kvist that plans otherwise",
                            head.position));
  }
  std::set<std::size_t> there;
  for (const results::LevelHead& head : heads) there.insert(static_cast<std::size_t>(head.position));
  std::size_t position = 0;
  for (const PlannedMode& stretch : plan) {
    for (const std::span<const PlannedLevel> load : loads_of(stretch, sweep_)) {
      std::size_t finished = 0;
      for (std::size_t i = 0; i < load.size(); ++i) finished += there.contains(position + i) ? 1 : 0;
      for (std::size_t i = 0; i < load.size() && finished < load.size(); ++i) {
        if (there.erase(position + i) > 0) {
          KVIST_TRY_VOID(store.remove_level(run, static_cast<std::int64_t>(position + i)));
        }
      }
      position += load.size();
    }
  }
  for (const results::LevelHead& head : heads) {
    if (!there.contains(static_cast<std::size_t>(head.position))) continue;
    if (!watch_) {
      done_.insert(static_cast<std::size_t>(head.position));
      continue;
    }
    KVIST_TRY(const results::LevelRecord level, store.load_level(head.id, {.timelines = false}));
    add(static_cast<std::size_t>(head.position), level);
  }
  return {};
}

void RunProgress::add(std::size_t position, const results::LevelRecord& level) {
  done_.insert(position);
  if (!watch_) return;
  watch_->add(level.mode, level.concurrency, level.repetition,
              analysis::stop_figure(*sweep_.comparison.stop_when, level, sweep_.method,
                                    analysis::schedule_of(sweep_.workload)));
}

bool RunProgress::is_settled(std::span<const PlannedLevel> load) const {
  return watch_ && std::ranges::all_of(load, [&](const PlannedLevel& level) {
           return level.repetition >= watch_->rounds(level.concurrency) && watch_->is_narrow(level.concurrency);
         });
}

bool RunProgress::is_open(std::span<const PlannedLevel> load, std::size_t position) const {
  return !done_.contains(position) && !is_settled(load);
}

Result<ResumedRun> open_interrupted(const std::string& directory, bool simulated, results::Durability durability) {
  const std::string path = database_of(directory);
  if (!std::filesystem::is_regular_file(path)) return fail(ErrorCode::kNotFound, path + ": no such file");
  ResumedRun resumed;
  KVIST_TRY(resumed.lock, FolderLock::take(directory));
  KVIST_TRY(resumed.store, results::Store::open(path, durability));
  KVIST_TRY(const std::vector<std::int64_t> runs, resumed.store->runs());
  if (runs.empty()) return fail(ErrorCode::kNotFound, path + ": holds no run");
  resumed.run = runs.back();
  KVIST_TRY(resumed.head, resumed.store->load_head(resumed.run));
  KVIST_TRY_VOID(check_same_measurer(resumed.head, path));
  if (resumed.head.simulated == simulated) return resumed;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: the run is {}; go on with it by kvist {}", path, simulated ? "live" : "simulated",
                          simulated ? "sweep" : "simulate"));
}

Result<spec::SweepSpec> interrupted_sweep(const std::string& directory) {
  const std::string path = database_of(directory);
  if (!std::filesystem::is_regular_file(path)) return fail(ErrorCode::kNotFound, path + ": no such file");
  KVIST_TRY(const auto store, results::Store::open_to_read(path));
  KVIST_TRY(const std::vector<std::int64_t> runs, store->runs());
  if (runs.empty()) return fail(ErrorCode::kNotFound, path + ": holds no run");
  KVIST_TRY(const results::RunRecord head, store->load_head(runs.back()));
  KVIST_TRY(const YamlNode node, YamlNode::parse(head.spec_yaml, "specification in " + path));
  return spec::read_sweep(node, ".");
}

}  // namespace kvist::sweep
