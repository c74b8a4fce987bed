#include "kvist/sweep/sweep_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "kvist/net/event_loop.h"
#include "kvist/net/time_of_day.h"
#include "kvist/sweep/driven_load.h"
#include "kvist/sweep/output_folder.h"

namespace kvist::sweep {
namespace {

/// A directory for the logs of one deployment: of an arm, or of one of its measurements.
std::string log_name(const spec::SweepSpec& sweep, const PlannedMode& stretch) {
  const std::string name(spec::to_string(stretch.mode));
  if (!sweep.comparison.alternates()) return name;
  const PlannedLevel& first = stretch.levels.front();
  return fmt::format("{}-{}-{}", name, first.concurrency, first.repetition + 1);
}

/// If no turn of a level succeeded, the next levels would fail too.
Result<void> check_any_success(const results::LevelRecord& level) {
  std::string first_error = "nothing was sent";
  for (const workload::TurnSample& turn : level.turns) {
    if (turn.outcome == workload::TurnOutcome::kSucceeded) return {};
    if (turn.outcome == workload::TurnOutcome::kFailed) first_error = turn.error;
  }
  return fail(ErrorCode::kUnavailable,
              fmt::format("{} {}: none of {} turns succeeded; the last error: {}", spec::to_string(level.mode),
                          level.concurrency, level.turns.size(), first_error));
}

}  // namespace

SweepRunner::SweepRunner(spec::SweepSpec sweep, SweepOptions options)
    : sweep_(std::move(sweep)),
      options_(std::move(options)),
      plan_(make_plan(sweep_)),
      run_progress_(sweep_),
      live_(sweep_, {.make_deployer = options_.make_deployer,
                     .progress = options_.progress,
                     .stop = options_.stop,
                     .observer = options_.observer}) {
  for (const PlannedMode& mode : plan_) outcome_.levels_planned += mode.levels.size();
}

Result<SweepOutcome> SweepRunner::run() {
  KVIST_TRY_VOID(live_.prepare());
  KVIST_TRY_VOID(prepare());
  options_.progress(fmt::format("sweep {}: {}, {:.0f} s of measuring; results in {}", sweep_.name,
                                describe_size(sweep_), to_seconds(measuring_time(sweep_)), outcome_.directory));
  if (outcome_.levels_done > 0) {
    options_.progress(fmt::format("{} of {} levels are there already", outcome_.levels_done, outcome_.levels_planned));
  }
  auto done = run_all();
  if (!done) outcome_.failure = std::move(done).error();
  auto reported = report();
  if (!reported && !outcome_.failure) outcome_.failure = std::move(reported).error();
  return std::move(outcome_);
}

Result<void> SweepRunner::prepare() {
  begun_ = net::now();
  if (!options_.resume.empty()) {
    KVIST_TRY(ResumedRun resumed, open_interrupted(options_.resume, false, results::Durability::kFull));
    outcome_.directory = options_.resume;
    lock_ = std::move(resumed.lock);
    store_ = std::move(resumed.store);
    run_ = resumed.run;
    wall_s_before_ = resumed.head.wall_s;
    KVIST_TRY_VOID(run_progress_.take_over(*store_, run_, plan_));
    outcome_.levels_done = run_progress_.done();
    return {};
  }
  KVIST_TRY(outcome_.directory, make_output_folder(sweep_.output_directory, sweep_.name));
  KVIST_TRY(lock_, FolderLock::take(outcome_.directory));
  const std::filesystem::path directory(outcome_.directory);
  KVIST_TRY(store_, results::Store::open((directory / "results.sqlite").string()));
  KVIST_TRY(run_, store_->begin_run(run_head(sweep_)));
  return {};
}

Result<void> SweepRunner::run_all() {
  std::size_t position = 0;
  Result<void> done;
  for (const PlannedMode& stretch : plan_) {
    done = run_stretch(stretch, position);
    if (!done) break;
    position += stretch.levels.size();
  }
  live_.stop();
  return done;
}

Result<void> SweepRunner::run_stretch(const PlannedMode& stretch, std::size_t position) {
  const std::string logs = (std::filesystem::path(outcome_.directory) / "logs" / log_name(sweep_, stretch)).string();
  for (const std::span<const PlannedLevel> load : loads_of(stretch, sweep_)) {
    if (run_progress_.is_open(load, position)) {
      KVIST_TRY_VOID(live_.begin(stretch.mode, logs));
      KVIST_TRY_VOID(run_load(load, position));
      position += load.size();
      continue;
    }
    if (options_.observer != nullptr) options_.observer->on_levels_skipped(load);
    if (run_progress_.is_settled(load)) {
      outcome_.levels_planned -= load.size();
      options_.progress(fmt::format("{}: not measured again: the gain is known within +-{:.3g}",
                                    title_of(load.front(), sweep_.method.repetitions),
                                    run_progress_.watch()->half_width(load.front().concurrency).value_or(0)));
    }
    position += load.size();
  }
  live_.end();
  return {};
}

Result<void> SweepRunner::run_load(std::span<const PlannedLevel> levels, std::size_t position) {
  return live_.run(levels, [&](results::LevelRecord& record) -> Result<void> {
    KVIST_TRY_VOID(keep(record, position++));
    return check_any_success(record);
  });
}

void SweepRunner::hold_against_calibration(results::LevelRecord& record) const {
  if (!options_.calibration || sweep_.agents.are_given()) return;  // agents are other machines
  loadgen::DrivenLoad load = driven_load(record.turns, record.measure_from, record.measure_to);
  const spec::WorkloadSpec& workload = live_.resolved().spec.workload;
  const bool closed =
      workload.trace.file.empty() ? !workload.arrivals.is_open() : workload.trace.loop == spec::TraceLoop::kClosed;
  if (closed) load.streams = record.concurrency;
  if (auto beyond = loadgen::beyond_limit(*options_.calibration, load)) record.remarks.push_back(*std::move(beyond));
}

Result<void> SweepRunner::keep(results::LevelRecord& record, std::size_t position) {
  hold_against_calibration(record);
  KVIST_TRY_VOID(store_->add_level(run_, record, static_cast<std::int64_t>(position)));
  run_progress_.add(position, record);
  ++outcome_.levels_done;
  if (options_.observer != nullptr) options_.observer->on_level_stored(record);
  return {};
}

Result<void> SweepRunner::report() {
  const bool finished = !outcome_.failure && outcome_.levels_done == outcome_.levels_planned;
  KVIST_TRY_VOID(
      store_->finish_run(run_, finished ? net::utc_now() : "", wall_s_before_ + to_seconds(net::now() - begun_)));
  if (outcome_.levels_done == 0) return {};
  return report_outcome(*store_, run_, sweep_, outcome_);
}

}  // namespace kvist::sweep
