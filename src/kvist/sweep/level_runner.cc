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

Result<results::LevelRecord> LevelRunner::run(const PlannedLevel& level) {
  level_ = level;
  readings_ = {};
  results::LevelRecord record;
  record.mode = level.mode;
  record.concurrency = level.concurrency;
  record.repetition = level.repetition;
  record.seed = level.seed;
  auto measured = measure(level, record);
  if (!measured) {
    // Nothing may go on driving load into whatever comes next.
    (void)await(load_.stop(false), deploy::Until::after(kCancelTimeout, {}));
    return std::unexpected(std::move(measured).error());
  }
  return record;
}

Result<void> LevelRunner::measure(const PlannedLevel& level, results::LevelRecord& record) {
  KVIST_TRY_VOID(await_idle());
  KVIST_TRY(readings_.before, deployer_.collect());
  record.started_utc = utc_now();
  record.started = net::now();
  KVIST_TRY_VOID(load_.start(level.concurrency, level.seed));
  KVIST_TRY_VOID(take_snapshots(record));
  KVIST_TRY(client_load_, load_.client_load());
  client_time_ = net::now() - record.started;
  if (client_load_.refused_starts) record.remarks.push_back(*client_load_.refused_starts);
  KVIST_TRY_VOID(drain(record));
  KVIST_TRY_VOID(await_idle());
  KVIST_TRY(readings_.after, deployer_.collect());
  KVIST_TRY(record.turns, load_.take_samples());
  record.workers = summarise_workers(readings_, record.remarks);
  record.client = summarise_client(client_load_, client_time_, record.turns);
  say(fmt::format("done: {} turns, {} failed, KV hit rate {}", record.turns.size(),
                  count(record.turns, workload::TurnOutcome::kFailed), hit_rate(record.workers)));
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
  progress_(fmt::format("{}: {}", describe(level_, method_.repetitions), what));
}

}  // namespace kvist::sweep
