#include "kvist/cli/sweep_dashboard.h"

#include <algorithm>
#include <utility>

#include "kvist/analysis/level_analysis.h"
#include "kvist/cli/dashboard_setup.h"
#include "kvist/dashboard/baseline.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/routing_mode.h"
#include "kvist/sweep/plan.h"

namespace kvist::cli {

using dashboard::LevelState;
using dashboard::SweepLevel;
using dashboard::SweepState;

SweepDashboard::SweepDashboard(const spec::SweepSpec& sweep) : method_(sweep.method) {
  progress_.name = sweep.name;
  progress_.warmup = sweep.method.warmup;
  progress_.measuring = sweep.method.snapshot_interval * sweep.method.snapshots;
  progress_.begun = net::now();
  for (const sweep::PlannedMode& mode : sweep::make_plan(sweep)) {
    for (const sweep::PlannedLevel& level : mode.levels) {
      progress_.levels.push_back({.mode = std::string(spec::to_string(level.mode)),
                                  .concurrency = level.concurrency,
                                  .repetition = level.repetition});
    }
  }
}

Result<std::unique_ptr<SweepDashboard>> SweepDashboard::start(const SweepArguments& arguments,
                                                              const spec::SweepSpec& sweep) {
  std::unique_ptr<SweepDashboard> made(new SweepDashboard(sweep));
  dashboard::DashboardOptions options;
  options.host = arguments.host;
  options.port = arguments.port;
  options.facts = {.source = "sweep",
                   .title = sweep.name,
                   .target = "the sweep's gateway",
                   .time_scale = time_scale_of(sweep.deployment.workers)};
  options.load = made->watch_;
  KVIST_TRY_VOID(read_dashboard(arguments.dashboard, options));
  KVIST_TRY(made->board_, dashboard::Dashboard::start(std::move(options)));
  made->board_->set_sweep(made->progress_);
  return made;
}

SweepLevel* SweepDashboard::find(const std::string& mode, std::uint32_t concurrency, std::uint32_t repetition) {
  const auto found = std::ranges::find_if(progress_.levels, [&](const SweepLevel& level) {
    return level.mode == mode && level.concurrency == concurrency && level.repetition == repetition;
  });
  return found == progress_.levels.end() ? nullptr : &*found;
}

void SweepDashboard::on_deployment(const deploy::Addresses& addresses) {
  progress_.state = SweepState::kRunning;
  board_->set_gateway(addresses.gateway.admin, addresses.gateway.administration);
  board_->set_sweep(progress_);
}

void SweepDashboard::on_levels_skipped(std::span<const sweep::PlannedLevel> levels) {
  for (const sweep::PlannedLevel& level : levels) {
    SweepLevel* const skipped = find(std::string(spec::to_string(level.mode)), level.concurrency, level.repetition);
    if (skipped != nullptr) skipped->state = LevelState::kDone;
  }
  board_->set_sweep(progress_);
}

void SweepDashboard::on_level_begun(const sweep::PlannedLevel& level) {
  const TimePoint now = net::now();
  progress_.draining.reset();
  for (SweepLevel& one : progress_.levels) {
    // A load that goes on through its levels stores them at its end.
    if (one.state == LevelState::kRunning) one.ended = now;
    if (one.state == LevelState::kRunning) one.state = LevelState::kDone;
  }
  SweepLevel* const begun = find(std::string(spec::to_string(level.mode)), level.concurrency, level.repetition);
  if (begun != nullptr) {
    begun->state = LevelState::kRunning;
    begun->started = now;
  }
  board_->set_sweep(progress_);
}

void SweepDashboard::on_level_measured() {
  progress_.draining = net::now();
  board_->set_sweep(progress_);
}

void SweepDashboard::on_level_stored(const results::LevelRecord& record) {
  SweepLevel* const level = find(std::string(spec::to_string(record.mode)), record.concurrency, record.repetition);
  if (level == nullptr) return;
  level->state = LevelState::kDone;
  if (!level->ended) level->ended = net::now();
  level->figures = dashboard::figures_of(analysis::analyse(record, method_));
  progress_.draining.reset();
  board_->set_sweep(progress_);
}

void SweepDashboard::finish(const sweep::SweepOutcome& outcome) {
  progress_.state = outcome.failure ? SweepState::kFailed : SweepState::kFinished;
  if (outcome.failure) progress_.problem = outcome.failure->message;
  for (SweepLevel& level : progress_.levels)
    if (level.state == LevelState::kRunning) level.state = LevelState::kFailed;
  board_->set_sweep(progress_);
}

}  // namespace kvist::cli
