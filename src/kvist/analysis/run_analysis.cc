#include "kvist/analysis/run_analysis.h"

#include <algorithm>

#include "kvist/analysis/comparison.h"
#include "kvist/perfmodel/step_time_model.h"

namespace kvist::analysis {
namespace {

std::optional<double> common_time_scale(const std::vector<spec::WorkerSpec>& workers) {
  if (workers.empty()) return std::nullopt;
  for (const spec::WorkerSpec& worker : workers) {
    if (worker.time_scale < workers.front().time_scale || worker.time_scale > workers.front().time_scale) {
      return std::nullopt;
    }
  }
  return workers.front().time_scale;
}

/// What profiles determine (KV blocks, admission, ...) is not in the specification, so it is computed again here. A
/// worker whose profile can no longer be read stays as specified.
spec::SweepSpec with_profiles(spec::SweepSpec sweep) {
  for (spec::WorkerSpec& worker : sweep.deployment.workers) {
    if (!worker.profile) continue;
    if (Result<spec::WorkerSpec> resolved = perfmodel::resolve(worker)) worker = *std::move(resolved);
  }
  return sweep;
}

results::RunRecord without_levels(const results::RunRecord& run) {
  return {.name = run.name,
          .started_utc = run.started_utc,
          .finished_utc = run.finished_utc,
          .kvist_version = run.kvist_version,
          .simulated = run.simulated,
          .spec_yaml = run.spec_yaml,
          .machine = run.machine,
          .threads = run.threads,
          .wall_s = run.wall_s,
          .levels = {},
          .sources = run.sources,
          .left_out = run.left_out};
}

std::vector<Measurement> measure_all(const results::RunRecord& run, const spec::SweepSpec& sweep) {
  const CacheContext caches = cache_context(sweep);
  std::vector<Measurement> measurements;
  measurements.reserve(run.levels.size());
  for (const results::LevelRecord& level : run.levels)
    measurements.push_back(measure(level, sweep.method, &caches, schedule_of(sweep.workload)));
  return measurements;
}

/// Takes the measurements of one level in one mode: each repetition's last, ascending.
std::vector<Measurement> take_repetitions(std::vector<Measurement>& measurements, const spec::Arm& mode,
                                          std::uint32_t concurrency) {
  std::vector<Measurement> taken;
  for (Measurement& measurement : measurements) {
    const results::LevelRecord& record = measurement.record;
    if (record.mode != mode || record.concurrency != concurrency) continue;
    const auto known = std::ranges::find_if(
        taken, [&](const Measurement& other) { return other.record.repetition == record.repetition; });
    if (known != taken.end()) {
      *known = std::move(measurement);
    } else {
      taken.push_back(std::move(measurement));
    }
  }
  std::ranges::sort(taken, {}, [](const Measurement& m) { return m.record.repetition; });
  return taken;
}

}  // namespace

RunAnalysis::RunAnalysis(const results::RunRecord& run, const spec::SweepSpec& sweep)
    : RunAnalysis(run, sweep, measure_all(run, sweep)) {}

RunAnalysis::RunAnalysis(const results::RunRecord& header, const spec::SweepSpec& sweep,
                         std::vector<Measurement> measurements)
    : run_(without_levels(header)),
      sweep_(with_profiles(sweep)),
      time_scale_(common_time_scale(sweep.deployment.workers)) {
  find_modes(measurements);
  for (const std::uint32_t concurrency : concurrencies_) {
    for (const spec::Arm& mode : modes_) {
      std::vector<Measurement> repetitions = take_repetitions(measurements, mode, concurrency);
      if (repetitions.empty()) continue;
      levels_.push_back(merge_repetitions(std::move(repetitions)));
      levels_.back().same_requests = same_requests();
    }
  }
}

void RunAnalysis::find_modes(const std::vector<Measurement>& measurements) {
  const auto add_mode = [&](const spec::Arm& mode) {
    if (std::ranges::find(modes_, mode) == modes_.end()) modes_.push_back(mode);
  };
  for (const spec::ArmSpec& arm : spec::arms_of(sweep_)) {
    const bool measured =
        std::ranges::any_of(measurements, [&](const Measurement& m) { return m.record.mode == arm.arm; });
    if (measured) add_mode(arm.arm);
  }
  for (const Measurement& measurement : measurements) {
    add_mode(measurement.record.mode);
    concurrencies_.push_back(measurement.record.concurrency);
  }
  std::ranges::sort(concurrencies_);
  concurrencies_.erase(std::unique(concurrencies_.begin(), concurrencies_.end()), concurrencies_.end());
}

const MeasuredLevel* RunAnalysis::find(const spec::Arm& mode, std::uint32_t concurrency) const {
  for (const MeasuredLevel& level : levels_) {
    if (level.analysis.mode == mode && level.analysis.concurrency == concurrency) return &level;
  }
  return nullptr;
}

bool RunAnalysis::repeated() const {
  return std::ranges::any_of(levels_, [](const MeasuredLevel& level) { return level.repetitions.size() > 1; });
}

std::optional<double> improvement_pct(const MeasuredLevel* baseline, const MeasuredLevel* candidate,
                                      LevelFigure figure) {
  if (baseline == nullptr || candidate == nullptr) return std::nullopt;
  if (baseline->analysis.excluded || candidate->analysis.excluded) return std::nullopt;
  if (!objections_to_level(*baseline, *candidate).empty()) return std::nullopt;
  const std::optional<double> before = figure(baseline->analysis);
  const std::optional<double> after = figure(candidate->analysis);
  if (!before || !after || !(*before > 0)) return std::nullopt;
  return (*before - *after) / *before * 100;
}

}  // namespace kvist::analysis
