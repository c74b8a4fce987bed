#include "kvist/report/run_analysis.h"

#include <algorithm>

namespace kvist::report {
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

}  // namespace

RunAnalysis::RunAnalysis(const results::RunRecord& run, const spec::SweepSpec& sweep)
    : run_(&run), sweep_(&sweep), time_scale_(common_time_scale(sweep.deployment.workers)) {
  const auto measured = [&](spec::RoutingMode mode) {
    return std::any_of(run.levels.begin(), run.levels.end(), [&](const auto& level) { return level.mode == mode; });
  };
  const auto add_mode = [&](spec::RoutingMode mode) {
    if (std::find(modes_.begin(), modes_.end(), mode) == modes_.end()) modes_.push_back(mode);
  };
  for (const spec::RoutingMode mode : sweep.modes) {
    if (measured(mode)) add_mode(mode);
  }
  for (const results::LevelRecord& level : run.levels) {
    add_mode(level.mode);
    concurrencies_.push_back(level.concurrency);
  }
  std::sort(concurrencies_.begin(), concurrencies_.end());
  concurrencies_.erase(std::unique(concurrencies_.begin(), concurrencies_.end()), concurrencies_.end());

  for (const std::uint32_t concurrency : concurrencies_) {
    for (const spec::RoutingMode mode : modes_) {
      const auto record = std::find_if(run.levels.rbegin(), run.levels.rend(), [&](const auto& level) {
        return level.mode == mode && level.concurrency == concurrency;
      });
      if (record != run.levels.rend()) levels_.push_back({&*record, analyse(*record, sweep.method)});
    }
  }
}

const MeasuredLevel* RunAnalysis::find(spec::RoutingMode mode, std::uint32_t concurrency) const {
  for (const MeasuredLevel& level : levels_) {
    if (level.analysis.mode == mode && level.analysis.concurrency == concurrency) return &level;
  }
  return nullptr;
}

std::optional<double> improvement_pct(const MeasuredLevel* baseline, const MeasuredLevel* candidate,
                                      LevelFigure figure) {
  if (baseline == nullptr || candidate == nullptr) return std::nullopt;
  if (baseline->analysis.excluded || candidate->analysis.excluded) return std::nullopt;
  const std::optional<double> before = figure(baseline->analysis);
  const std::optional<double> after = figure(candidate->analysis);
  if (!before || !after || !(*before > 0)) return std::nullopt;
  return (*before - *after) / *before * 100;
}

}  // namespace kvist::report
