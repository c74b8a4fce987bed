#include "kvist/sweep/level_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvist/net/event_loop.h"
#include "kvist/sweep/utc.h"

namespace kvist::sweep {
namespace {

constexpr Duration kIdleTimeout = std::chrono::seconds(30);
constexpr Duration kCancelTimeout = std::chrono::seconds(10);  // for turns that were broken off
constexpr std::chrono::milliseconds kFutureSlice(20);          // how fast an interrupt is noticed

/// False where the future was not ready in time, or the user gave up.
bool await(const std::future<void>& future, const deploy::Until& until) {
  while (future.wait_for(kFutureSlice) != std::future_status::ready) {
    if (until.stop.stop_requested() || net::now() >= until.deadline) return false;
  }
  return true;
}

std::string milliseconds(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f} ms", *value) : "none";
}

std::size_t count(const std::vector<workload::TurnSample>& turns, workload::TurnOutcome outcome) {
  return static_cast<std::size_t>(std::ranges::count(turns, outcome, &workload::TurnSample::outcome));
}

/// "hit rate 91.3 %" over a whole level, as the workers counted.
std::string hit_rate(const std::vector<results::WorkerLevelRecord>& workers) {
  double hits = 0;
  double queries = 0;
  for (const auto& worker : workers) {
    hits += static_cast<double>(worker.prefix_hit_tokens);
    queries += static_cast<double>(worker.prefix_query_tokens);
  }
  return queries > 0 ? fmt::format("{:.1f} %", 100 * hits / queries) : "none";
}

}  // namespace

Result<void> LevelRunner::run(std::span<const PlannedLevel> levels, const KeepLevel& keep) {
  measured_.clear();
  readings_ = {};
  Result<void> done = measure(levels);
  if (!done) {
    const std::string where =
        describe(measured_.empty() ? levels.front() : measured_.back().level, method_.repetitions);
    // Nothing may go on driving load into whatever comes next.
    (void)await(load_.stop(false), deploy::Until::after(kCancelTimeout, {}));
    // The error that came first is the one to be told.
    (void)hand_on(measured_.empty() ? 0 : measured_.size() - 1, keep);
    return std::unexpected(std::move(done).error().in(where));
  }
  return hand_on(measured_.size(), keep);
}

Result<void> LevelRunner::measure(std::span<const PlannedLevel> levels) {
  KVIST_TRY_VOID(await_idle());
  KVIST_TRY(readings_.before, deployer_.collect());
  for (const PlannedLevel& level : levels) {
    KVIST_TRY_VOID(begin(level));
    results::LevelRecord& record = measured_.back().record;
    KVIST_TRY_VOID(take_snapshots(record));
    KVIST_TRY(measured_.back().client_load, load_.client_load());
    measured_.back().client_time = net::now() - record.started;
    if (const auto& refused = measured_.back().client_load.refused_starts) record.remarks.push_back(*refused);
    if (measured_.size() == levels.size()) {
      KVIST_TRY_VOID(drain(record));
      KVIST_TRY_VOID(await_idle());
    }
    KVIST_TRY(readings_.after, deployer_.collect());
    record.workers = summarise_workers(readings_, record.remarks);
    readings_ = {.before = std::move(readings_.after), .during = {}, .after = {}};
  }
  return {};
}

Result<void> LevelRunner::begin(const PlannedLevel& level) {
  const bool is_first = measured_.empty();
  measured_.push_back({.level = level, .record = {}, .client_load = {}});
  results::LevelRecord& record = measured_.back().record;
  record.mode = level.mode;
  record.concurrency = level.concurrency;
  record.repetition = level.repetition;
  record.seed = level.seed;
  record.started_utc = utc_now();
  record.started = net::now();
  return is_first ? load_.start(level.concurrency, level.seed) : load_.raise(level.concurrency);
}

Result<void> LevelRunner::hand_on(std::size_t complete, const KeepLevel& keep) {
  if (complete == 0) return {};
  KVIST_TRY(std::vector<workload::TurnSample> turns, load_.take_samples());
  for (workload::TurnSample& turn : turns) {
    // One that was never sent has the instant at which it should have been.
    const TimePoint sent = turn.sent == TimePoint{} ? turn.intended : turn.sent;
    const auto is_of = [sent](const Measured& measured) { return measured.record.started <= sent; };
    const auto level = std::ranges::find_if(measured_.rbegin(), measured_.rend(), is_of);
    (level == measured_.rend() ? measured_.front() : *level).record.turns.push_back(std::move(turn));
  }
  for (Measured& measured : std::span(measured_).first(complete)) {
    results::LevelRecord& record = measured.record;
    record.client = summarise_client(measured.client_load, measured.client_time, record.turns);
    progress_(fmt::format("{}: done: {} turns, {} failed, KV hit rate {}",
                          describe(measured.level, method_.repetitions), record.turns.size(),
                          count(record.turns, workload::TurnOutcome::kFailed), hit_rate(record.workers)));
    KVIST_TRY_VOID(keep(record));
  }
  return {};
}

Result<void> LevelRunner::take_snapshots(results::LevelRecord& record) {
  say(fmt::format("warm-up, {} s", to_seconds(method_.warmup)));
  record.measure_from = record.started + method_.warmup;
  KVIST_TRY_VOID(sleep_until(record.measure_from));
  for (std::uint32_t i = 1; i <= method_.snapshots; ++i) {
    KVIST_TRY_VOID(sleep_until(record.measure_from + i * method_.snapshot_interval));
    KVIST_TRY_VOID(take_snapshot(record));
  }
  record.measure_to = record.snapshots.back().at;
  return {};
}

Result<void> LevelRunner::take_snapshot(results::LevelRecord& record) {
  KVIST_TRY(const workload::Snapshot snapshot, load_.snapshot());
  record.snapshots.push_back(snapshot);
  say(fmt::format("snapshot {}/{}: TTFT p50 {}, p95 {}; {:.0f} tokens/s, {:.1f} turns/s, errors {:.1f} %",
                  record.snapshots.size(), method_.snapshots, milliseconds(snapshot.ttft_p50_ms),
                  milliseconds(snapshot.ttft_p95_ms), snapshot.output_tokens_per_s, snapshot.turns_per_s,
                  snapshot.error_pct));
  KVIST_TRY_VOID(deployer_.check_alive());
  // The gauges are for the reader; a worker too busy to answer a scrape does not spoil what the client measured.
  auto metrics = deployer_.collect();
  if (metrics) {
    readings_.during.push_back(std::move(*metrics));
  } else {
    record.remarks.push_back(
        fmt::format("no worker gauges at snapshot {}: {}", record.snapshots.size(), metrics.error().message));
  }
  return {};
}

Result<void> LevelRunner::drain(results::LevelRecord& record) {
  KVIST_TRY(const std::uint32_t in_flight, load_.in_flight());
  say(fmt::format("draining, {} turns in flight", in_flight));
  const std::future<void> drained = load_.stop(true);
  if (await(drained, deploy::Until::after(method_.drain_timeout, stop_))) return {};
  if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
  KVIST_TRY(const std::uint32_t left, load_.in_flight());
  record.remarks.push_back(fmt::format("{} turns had not ended {} s after the last snapshot and were broken off", left,
                                       to_seconds(method_.drain_timeout)));
  say(record.remarks.back());
  if (await(load_.stop(false), deploy::Until::after(kCancelTimeout, stop_))) return {};
  return fail(ErrorCode::kDeadlineExceeded, "the load generator does not come to a stop");
}

Result<void> LevelRunner::await_idle() {
  return deployer_.await_idle(deploy::Until::after(kIdleTimeout, stop_));
}

Result<void> LevelRunner::sleep_until(TimePoint when) {
  // In pieces, so that the death of a worker is noticed long before the next snapshot.
  constexpr Duration kPiece = std::chrono::seconds(1);
  while (net::now() < when) {
    if (!deploy::sleep_until(std::min(when, net::now() + kPiece), stop_)) {
      return fail(ErrorCode::kCancelled, "interrupted");
    }
    KVIST_TRY_VOID(deployer_.check_alive());
  }
  if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
  return {};
}

void LevelRunner::say(std::string_view what) const {
  progress_(fmt::format("{}: {}", describe(measured_.back().level, method_.repetitions), what));
}

}  // namespace kvist::sweep
