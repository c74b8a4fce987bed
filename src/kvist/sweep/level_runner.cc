#include "kvist/sweep/level_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvist/analysis/repetitions.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/time_of_day.h"
#include "kvist/render/figures.h"
#include "kvist/report/level_line.h"

namespace kvist::sweep {

using level::LevelAction;
using level::LevelProcedure;
using level::LevelStep;
using level::LevelTimes;

namespace {

constexpr std::chrono::milliseconds kFutureSlice(20);  // the latency of an interrupt

/// False if the future was not ready in time, or the user interrupted.
bool await(const std::future<void>& future, const deploy::Until& until) {
  while (future.wait_for(kFutureSlice) != std::future_status::ready) {
    if (until.stop.stop_requested() || net::now() >= until.deadline) return false;
  }
  return true;
}

std::string milliseconds(const std::optional<double>& value) {
  return value ? fmt::format("{:.{}f} ms", *value, *value < 100 ? 1 : 0) : "none";
}

std::size_t count(const std::vector<workload::TurnSample>& turns, workload::TurnOutcome outcome) {
  return static_cast<std::size_t>(std::ranges::count(turns, outcome, &workload::TurnSample::outcome));
}

/// The client's, as in the report: a target that runs already may have no workers that anybody knows.
std::string hit_rate(const analysis::HitRate& rate) {
  return rate.client_pct ? fmt::format("{:.1f} %", *rate.client_pct) : std::string(render::kMissing);
}

}  // namespace

Result<void> LevelRunner::run(std::span<const PlannedLevel> levels, const KeepLevel& keep) {
  measured_.clear();
  readings_ = {};
  LevelProcedure procedure(method_, levels.size());
  Result<void> done = measure(procedure, levels);
  if (done) return hand_on(procedure, keep);
  const std::string where = title_of(measured_.empty() ? levels.front() : measured_.back().level, method_.repetitions);
  // The first error is reported. An interrupt does not end this wait, which stops the load.
  const LevelAction last = procedure.on_failed(net::now());
  if (last.step == LevelStep::kBreakOff) (void)await(load_.stop(false), {.deadline = last.until, .stop = {}});
  (void)hand_on(procedure, keep);
  return std::unexpected(std::move(done).error().in(where));
}

Result<void> LevelRunner::measure(LevelProcedure& procedure, std::span<const PlannedLevel> levels) {
  LevelAction action = procedure.begin(net::now());
  while (action.step != LevelStep::kEnd) {
    std::optional<std::uint32_t> left;
    if (action.step == LevelStep::kDrain || action.step == LevelStep::kBreakOff) {
      KVIST_TRY(left, stop_load(action));
    } else {
      KVIST_TRY_VOID(carry_out(action, procedure, levels));
    }
    action = left ? procedure.on_overdue(*left, net::now()) : procedure.on_done(net::now());
  }
  if (action.failure) return std::unexpected(*std::move(action.failure));
  return {};
}

Result<void> LevelRunner::carry_out(const LevelAction& action, LevelProcedure& procedure,
                                    std::span<const PlannedLevel> levels) {
  switch (action.step) {
    case LevelStep::kProveIdle:
      return deployer_.await_idle({.deadline = action.until, .stop = stop_});
    case LevelStep::kReadCounters:
      return read_counters();
    case LevelStep::kStartLoad:
    case LevelStep::kRaiseLoad:
      return begin(levels[action.level], procedure);
    case LevelStep::kAwaitSnapshot:
      return sleep_until(action.until);
    case LevelStep::kTakeSnapshot:
      return take_snapshot(action.snapshot);
    case LevelStep::kReadClient:
      return read_client();
    case LevelStep::kDrain:
    case LevelStep::kBreakOff:
    case LevelStep::kEnd:
      break;
  }
  return {};
}

Result<void> LevelRunner::read_counters() {
  KVIST_TRY(std::vector<deploy::WorkerMetrics> counters, deployer_.collect());
  if (!measured_.empty()) {
    readings_.after = counters;
    results::LevelRecord& record = measured_.back().record;
    record.workers = summarise_workers(readings_, record.remarks);
  }
  readings_ = {.before = std::move(counters), .during = {}, .after = {}};
  return {};
}

Result<void> LevelRunner::begin(const PlannedLevel& level, LevelProcedure& procedure) {
  const bool is_first = measured_.empty();
  measured_.push_back({.level = level, .record = {}, .client_load = {}});
  results::LevelRecord& record = measured_.back().record;
  record.mode = level.mode;
  record.concurrency = level.concurrency;
  record.repetition = level.repetition;
  record.seed = level.seed;
  record.started_utc = net::utc_now();
  if (is_first) {
    KVIST_TRY(const std::optional<TimePoint> later, load_.start(level.concurrency, level.seed));
    if (later) procedure.begins_at(*later);
  } else {
    KVIST_TRY_VOID(load_.raise(level.concurrency));
  }
  record.started = procedure.begun().back().started;
  record.measure_from = procedure.begun().back().measure_from;
  if (observer_ != nullptr) observer_->on_level_begun(level);
  say(fmt::format("warm-up, {} s", to_seconds(method_.warmup)));
  return {};
}

Result<void> LevelRunner::take_snapshot(std::uint32_t number) {
  results::LevelRecord& record = measured_.back().record;
  KVIST_TRY(const workload::Snapshot snapshot, load_.snapshot());
  record.snapshots.push_back(snapshot);
  say(fmt::format(
      "snapshot {}/{} of the last {} s: TTFT p50 {}, p95 {}; {:.0f} tokens/s, {:.1f} turns/s, errors {:.1f} %", number,
      method_.snapshots, to_seconds(method_.window), milliseconds(snapshot.ttft_p50_ms),
      milliseconds(snapshot.ttft_p95_ms), snapshot.output_tokens_per_s, snapshot.turns_per_s, snapshot.error_pct));
  KVIST_TRY_VOID(check_alive());
  // The gauges are informative: a worker that is too busy to answer a scrape does not invalidate the client's
  // measurements.
  auto metrics = deployer_.collect();
  if (metrics) {
    readings_.during.push_back(std::move(*metrics));
  } else {
    record.remarks.push_back(fmt::format("no worker gauges at snapshot {}: {}", number, metrics.error().message));
  }
  return {};
}

Result<void> LevelRunner::read_client() {
  Measured& measured = measured_.back();
  measured.record.measure_to = measured.record.snapshots.back().at;
  KVIST_TRY(measured.client_load, load_.client_load());
  measured.client_time = net::now() - measured.record.started;
  if (observer_ != nullptr) observer_->on_level_measured();
  if (const auto& refused = measured.client_load.refused_starts) measured.record.remarks.push_back(*refused);
  return {};
}

Result<std::optional<std::uint32_t>> LevelRunner::stop_load(const LevelAction& action) {
  const bool drains = action.step == LevelStep::kDrain;
  if (drains) {
    KVIST_TRY(const std::uint32_t in_flight, load_.in_flight());
    say(fmt::format("draining, {} turns in flight", in_flight));
  } else {
    measured_.back().record.remarks.push_back(action.remark);
    say(action.remark);
  }
  if (await(load_.stop(drains), {.deadline = action.until, .stop = stop_})) {
    KVIST_TRY_VOID(load_.check_alive());
    return std::nullopt;
  }
  if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
  return load_.in_flight();
}

Result<void> LevelRunner::hand_on(const LevelProcedure& procedure, const KeepLevel& keep) {
  const std::size_t complete = procedure.complete();
  if (complete == 0) return {};
  KVIST_TRY(std::vector<workload::TurnSample> turns, load_.take_samples());
  for (workload::TurnSample& turn : turns) {
    measured_[procedure.level_of(turn)].record.turns.push_back(std::move(turn));
  }
  for (Measured& measured : std::span(measured_).first(complete)) {
    results::LevelRecord& record = measured.record;
    record.client = summarise_client(measured.client_load, measured.client_time, record);
    KVIST_TRY_VOID(load_.complete(record));
    const analysis::MeasuredLevel level = analysis::merge_repetitions({analysis::measure(record, method_)});
    progress_(fmt::format("{}: done: {} turns, {} failed, KV hit rate {}, {}",
                          title_of(measured.level, method_.repetitions), record.turns.size(),
                          count(record.turns, workload::TurnOutcome::kFailed), hit_rate(level.analysis.hit_rate),
                          report::level_line(level)));
    KVIST_TRY_VOID(keep(record));
  }
  return {};
}

Result<void> LevelRunner::sleep_until(TimePoint when) {
  // Waits in pieces, so that the death of a worker is noticed long before the next snapshot.
  constexpr Duration kPiece = std::chrono::seconds(1);
  while (net::now() < when) {
    if (!deploy::sleep_until(std::min(when, net::now() + kPiece), stop_)) {
      return fail(ErrorCode::kCancelled, "interrupted");
    }
    KVIST_TRY_VOID(check_alive());
  }
  if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
  return {};
}

Result<void> LevelRunner::check_alive() {
  KVIST_TRY_VOID(deployer_.check_alive());
  return load_.check_alive();
}

void LevelRunner::say(std::string_view what) const {
  progress_(fmt::format("{}: {}", title_of(measured_.back().level, method_.repetitions), what));
}

}  // namespace kvist::sweep
