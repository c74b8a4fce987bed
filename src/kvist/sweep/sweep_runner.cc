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

constexpr Duration kStartTimeout = std::chrono::seconds(60);
constexpr Duration kReadyTimeout = std::chrono::seconds(120);  // a first token of a slow model may take a while

loadgen::ServiceOptions load_options(const ResolvedSweep& resolved, const deploy::Addresses& addresses) {
  loadgen::ServiceOptions options;
  options.target_url = addresses.gateway.url;
  options.model = addresses.models.front();
  options.workload = resolved.spec.workload;
  options.input = resolved.input;
  options.window = resolved.spec.method.window;
  return options;
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
    : sweep_(std::move(sweep)), options_(std::move(options)), plan_(make_plan(sweep_)) {
  for (const PlannedMode& mode : plan_) outcome_.levels_planned += mode.levels.size();
}

Result<SweepOutcome> SweepRunner::run() {
  KVIST_TRY(resolved_, resolve(sweep_));
  KVIST_TRY_VOID(prepare());
  options_.progress(fmt::format("sweep {}: {}, {:.0f} s of measuring; results in {}", sweep_.name,
                                describe_size(sweep_), to_seconds(measuring_time(sweep_)), outcome_.directory));
  for (const PlannedMode& mode : plan_) {
    auto done = run_mode(mode);
    if (done) continue;
    outcome_.failure = std::move(done).error();
    break;
  }
  auto reported = report();
  if (!reported && !outcome_.failure) outcome_.failure = std::move(reported).error();
  return std::move(outcome_);
}

Result<void> SweepRunner::prepare() {
  begun_ = net::now();
  for (const spec::RoutingMode mode : sweep_.modes) KVIST_TRY_VOID(spec::require_live(mode));
  KVIST_TRY(outcome_.directory, make_output_folder(sweep_.output_directory, sweep_.name));
  const std::filesystem::path directory(outcome_.directory);
  KVIST_TRY(store_, results::Store::open((directory / "results.sqlite").string()));
  KVIST_TRY(run_, store_->begin_run(run_head(sweep_)));
  return {};
}

Result<void> SweepRunner::run_mode(const PlannedMode& mode) {
  const std::string name(spec::to_string(mode.mode));
  spec::DeploymentSpec deployment = resolved_.spec.deployment;
  deployment.gateway.mode = mode.mode;
  // As in a simulation: what the fleet does with the whole load is what is to be measured.
  if (!deployment.gateway.admission.enabled) deployment.gateway.admission.enabled = false;
  options_.progress(fmt::format("{}: starting a gateway and {} workers", name, deployment.workers.size()));
  const std::string logs = (std::filesystem::path(outcome_.directory) / "logs" / name).string();
  const std::unique_ptr<deploy::Deployer> deployer = options_.make_deployer(logs);
  const TimePoint begun = net::now();
  KVIST_TRY_VOID(deployer->apply(deployment, deploy::Until::after(kStartTimeout, options_.stop)));
  KVIST_TRY_VOID(deployer->await_ready(deploy::Until::after(kReadyTimeout, options_.stop)));
  // The gateway was started in this mode; the query verifies it.
  KVIST_TRY_VOID(deployer->set_routing_mode(mode.mode));
  options_.progress(fmt::format("{}: ready after {:.1f} s", name, to_seconds(net::now() - begun)));
  auto done = run_levels(mode, *deployer);
  deployer->stop();
  return done;
}

Result<void> SweepRunner::run_levels(const PlannedMode& mode, deploy::Deployer& deployer) {
  KVIST_TRY(const auto load, LoadGenerator::create(load_options(resolved_, deployer.addresses())));
  LevelRunner runner(deployer, *load, sweep_.method, options_.progress, options_.stop);
  const KeepLevel keep_level = [this](results::LevelRecord& record) -> Result<void> {
    KVIST_TRY_VOID(keep(record));
    return check_any_success(record);
  };
  for (const std::span<const PlannedLevel> levels : loads_of(mode, sweep_)) {
    KVIST_TRY_VOID(runner.run(levels, keep_level));
  }
  return {};
}

void SweepRunner::hold_against_calibration(results::LevelRecord& record) const {
  if (!options_.calibration) return;
  loadgen::DrivenLoad load = driven_load(record.turns, record.measure_from, record.measure_to);
  const spec::WorkloadSpec& workload = resolved_.spec.workload;
  const bool closed =
      workload.trace.file.empty() ? !workload.arrivals.is_open() : workload.trace.loop == spec::TraceLoop::kClosed;
  if (closed) load.streams = record.concurrency;
  if (auto beyond = loadgen::beyond_limit(*options_.calibration, load)) record.remarks.push_back(*std::move(beyond));
}

Result<void> SweepRunner::keep(results::LevelRecord& record) {
  hold_against_calibration(record);
  KVIST_TRY_VOID(store_->add_level(run_, record));
  ++outcome_.levels_done;
  return {};
}

Result<void> SweepRunner::report() {
  KVIST_TRY_VOID(store_->finish_run(run_, net::utc_now(), to_seconds(net::now() - begun_)));
  if (outcome_.levels_done == 0) return {};
  return report_outcome(*store_, run_, sweep_, outcome_);
}

}  // namespace kvist::sweep
