#include "kvist/analysis/level_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "kvist/analysis/sample_summary.h"

namespace kvist::analysis {
namespace {

using workload::Snapshot;
using workload::TurnOutcome;
using workload::TurnSample;

bool in_window(const results::LevelRecord& level, TimePoint at) {
  return at >= level.measure_from && at <= level.measure_to;
}

void add_finite(std::vector<double>& samples, double value) {
  if (std::isfinite(value)) samples.push_back(value);
}

SnapshotMean mean_of(const std::vector<Snapshot>& snapshots, std::optional<double> Snapshot::* reading) {
  SnapshotMean mean;
  double sum = 0;
  for (const Snapshot& snapshot : snapshots) {
    const std::optional<double>& value = snapshot.*reading;
    if (!value || !std::isfinite(*value)) continue;
    sum += *value;
    ++mean.snapshots;
  }
  if (mean.snapshots > 0) mean.mean = sum / static_cast<double>(mean.snapshots);
  return mean;
}

SnapshotMean mean_of(const std::vector<Snapshot>& snapshots, double Snapshot::* reading) {
  SnapshotMean mean;
  double sum = 0;
  for (const Snapshot& snapshot : snapshots) {
    if (!std::isfinite(snapshot.*reading)) continue;
    sum += snapshot.*reading;
    ++mean.snapshots;
  }
  if (mean.snapshots > 0) mean.mean = sum / static_cast<double>(mean.snapshots);
  return mean;
}

PublishedFigures figures_of_snapshots(const std::vector<Snapshot>& snapshots) {
  PublishedFigures figures;
  figures.ttft_p50_ms = mean_of(snapshots, &Snapshot::ttft_p50_ms);
  figures.ttft_p95_ms = mean_of(snapshots, &Snapshot::ttft_p95_ms);
  figures.tpot_p50_ms = mean_of(snapshots, &Snapshot::tpot_p50_ms);
  figures.tpot_p95_ms = mean_of(snapshots, &Snapshot::tpot_p95_ms);
  figures.itl_p50_ms = mean_of(snapshots, &Snapshot::itl_p50_ms);
  figures.itl_p95_ms = mean_of(snapshots, &Snapshot::itl_p95_ms);
  figures.latency_p50_ms = mean_of(snapshots, &Snapshot::latency_p50_ms);
  figures.latency_p95_ms = mean_of(snapshots, &Snapshot::latency_p95_ms);
  figures.output_tokens_per_s = mean_of(snapshots, &Snapshot::output_tokens_per_s);
  figures.turns_per_s = mean_of(snapshots, &Snapshot::turns_per_s);
  figures.conversation_starts_per_s = mean_of(snapshots, &Snapshot::conversation_starts_per_s);
  figures.error_pct = mean_of(snapshots, &Snapshot::error_pct);
  return figures;
}

/// Without gaps a turn's tokens count as spread evenly between its first and its last one.
double evenly_spread_tokens(const results::LevelRecord& level, const TurnSample& turn) {
  const double length = to_milliseconds(turn.last_token - turn.first_token);
  const double from = std::max(0.0, to_milliseconds(level.measure_from - turn.first_token));
  const double to = std::min(length, to_milliseconds(level.measure_to - turn.first_token));
  return to > from ? turn.output_tokens() * (to - from) / length : 0;
}

/// Tokens of a turn that arrived within the window: its tokens are spread evenly over its content chunks, whose
/// instants are known from the gaps.
double tokens_in_window(const results::LevelRecord& level, const TurnSample& turn) {
  if (turn.gaps_ms.empty() && turn.last_token > turn.first_token) return evenly_spread_tokens(level, turn);
  const double from = to_milliseconds(level.measure_from - turn.first_token);
  const double to = to_milliseconds(level.measure_to - turn.first_token);
  double at = 0;
  std::size_t inside = at >= from && at <= to ? 1 : 0;
  for (const float gap : turn.gaps_ms) {
    at += static_cast<double>(gap);
    if (at >= from && at <= to) ++inside;
  }
  return turn.output_tokens() * static_cast<double>(inside) / static_cast<double>(turn.gaps_ms.size() + 1);
}

void add_rates(const results::LevelRecord& level, ExactFigures& exact) {
  exact.window_s = std::max(0.0, to_seconds(level.measure_to - level.measure_from));
  if (exact.window_s <= 0) return;
  double tokens = 0;
  double completed = 0;
  double started = 0;
  for (const TurnSample& turn : level.turns) {
    if (turn.outcome == TurnOutcome::kSucceeded && has_first_token(turn)) tokens += tokens_in_window(level, turn);
    if (turn.outcome == TurnOutcome::kSucceeded && in_window(level, turn.ended)) ++completed;
    if (turn.turn == 0 && in_window(level, turn.sent)) ++started;
  }
  exact.output_tokens_per_s = tokens / exact.window_s;
  exact.turns_per_s = completed / exact.window_s;
  exact.conversation_starts_per_s = started / exact.window_s;
}

/// Whether a turn kept the limits; one that failed did not. Nothing: one that may or may not have kept that of TPOT.
/// Where turns are due by a schedule, what they waited before they were sent counts: otherwise a limit on how many are
/// sent at once would make any rate good.
std::optional<bool> is_good(const TurnSample& turn, const spec::GoodputSpec& limits, Schedule schedule) {
  if (turn.outcome != TurnOutcome::kSucceeded || !has_first_token(turn)) return false;
  const bool open = schedule == Schedule::kOpen;
  const double ttft_ms = open ? turn.ttft_from_schedule_ms() : turn.ttft_ms();
  const double latency_ms = open ? turn.latency_from_schedule_ms() : turn.latency_ms();
  if (limits.ttft && ttft_ms > to_milliseconds(*limits.ttft)) return false;
  if (limits.latency && latency_ms > to_milliseconds(*limits.latency)) return false;
  if (limits.tpot && turn.hides_tpot()) return std::nullopt;
  const std::optional<double> tpot = turn.tpot_ms();
  return !limits.tpot || !tpot || *tpot <= to_milliseconds(*limits.tpot);
}

void add_goodput(const results::LevelRecord& level, const spec::GoodputSpec& limits, Schedule schedule,
                 ExactFigures& exact) {
  if (!limits.is_given() || exact.window_s <= 0) return;
  double ended = 0;
  double judged = 0;
  double good = 0;
  for (const TurnSample& turn : level.turns) {
    if (turn.outcome == TurnOutcome::kAbandoned || !in_window(level, turn.ended)) continue;
    ++ended;
    const std::optional<bool> verdict = is_good(turn, limits, schedule);
    judged += verdict ? 1 : 0;
    good += verdict.value_or(false) ? 1 : 0;
  }
  if (judged > 0 || ended == 0) exact.goodput_per_s = good / exact.window_s;
  if (judged > 0) exact.good_pct = 100 * good / judged;
}

void add_exact_figures(const results::LevelRecord& level, LevelAnalysis& analysis) {
  std::vector<double> tpot;
  std::vector<float> itl;
  std::vector<double> itl_means;
  std::vector<double> latency;
  for (const TurnSample& turn : level.turns) {
    if (!counts_for_percentiles(level, turn)) continue;
    add_finite(latency, turn.latency_ms());
    if (!has_first_token(turn)) continue;
    add_finite(analysis.sorted_ttft_ms, turn.ttft_ms());
    if (const std::optional<double> value = turn.tpot_ms()) add_finite(tpot, *value);
    double sum = 0;
    for (const float gap : turn.gaps_ms) {
      if (std::isfinite(gap)) itl.push_back(gap);
      sum += static_cast<double>(gap);
    }
    if (!turn.gaps_ms.empty()) add_finite(itl_means, sum / static_cast<double>(turn.gaps_ms.size()));
  }
  std::sort(analysis.sorted_ttft_ms.begin(), analysis.sorted_ttft_ms.end());
  analysis.exact.ttft_ms = describe(analysis.sorted_ttft_ms);
  analysis.exact.tpot_ms = describe(std::move(tpot));
  analysis.exact.itl_ms = describe_in_place(itl);
  analysis.exact.itl_request_mean_ms = describe(std::move(itl_means));
  analysis.exact.latency_ms = describe(std::move(latency));
  add_rates(level, analysis.exact);
}

void add_figures_from_schedule(const results::LevelRecord& level, ExactFigures& exact) {
  std::vector<double> ttft;
  std::vector<double> latency;
  for (const TurnSample& turn : level.turns) {
    if (!counts_for_percentiles(level, turn)) continue;
    add_finite(latency, turn.latency_from_schedule_ms());
    if (has_first_token(turn)) add_finite(ttft, turn.ttft_from_schedule_ms());
  }
  exact.ttft_from_schedule_ms = describe(std::move(ttft));
  exact.latency_from_schedule_ms = describe(std::move(latency));
}

void count(TurnCounts& counts, TurnOutcome outcome) {
  switch (outcome) {
    case TurnOutcome::kSucceeded:
      ++counts.succeeded;
      break;
    case TurnOutcome::kFailed:
      ++counts.failed;
      break;
    case TurnOutcome::kAbandoned:
      ++counts.abandoned;
      break;
  }
}

void add_errors(const results::LevelRecord& level, const spec::MethodSpec& method, LevelAnalysis& analysis) {
  for (const TurnSample& turn : level.turns) {
    count(analysis.all_turns, turn.outcome);
    if (in_window(level, turn.sent)) count(analysis.window_turns, turn.outcome);
  }
  const std::size_t finished = analysis.window_turns.succeeded + analysis.window_turns.failed;
  if (finished == 0) return;
  analysis.error_pct = 100.0 * static_cast<double>(analysis.window_turns.failed) / static_cast<double>(finished);
  analysis.excluded = *analysis.error_pct > method.max_error_pct;
}

std::optional<double> percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

HitRate hit_rate(const results::LevelRecord& level) {
  HitRate rate;
  double shares = 0;
  std::size_t turns = 0;
  for (const TurnSample& turn : level.turns) {
    if (turn.outcome != TurnOutcome::kSucceeded) continue;
    rate.client_prompt_tokens += turn.prompt_tokens;
    rate.client_cached_tokens += turn.cached_tokens;
    if (turn.prompt_tokens == 0) continue;
    shares += static_cast<double>(turn.cached_tokens) / turn.prompt_tokens;
    ++turns;
  }
  if (turns > 0) rate.turn_mean_pct = 100 * shares / static_cast<double>(turns);
  for (const results::WorkerLevelRecord& worker : level.workers) {
    rate.worker_query_tokens += worker.prefix_query_tokens;
    rate.worker_hit_tokens += worker.prefix_hit_tokens;
  }
  rate.workers_pct = percent(rate.worker_hit_tokens, rate.worker_query_tokens);
  // Many servers do not report cached tokens. That none were cached is known only of workers that say so themselves.
  const bool none_hit = rate.workers_pct && rate.worker_hit_tokens == 0;
  if (rate.client_cached_tokens > 0 || none_hit)
    rate.client_pct = percent(rate.client_cached_tokens, rate.client_prompt_tokens);
  else
    rate.turn_mean_pct.reset();
  if (rate.client_pct && rate.workers_pct) rate.difference_points = *rate.client_pct - *rate.workers_pct;
  return rate;
}

void add_worker_shares(const results::LevelRecord& level, LevelAnalysis& analysis) {
  std::map<std::string, std::size_t> turns;
  std::size_t total = 0;
  for (const TurnSample& turn : level.turns) {
    if (turn.worker.empty()) continue;
    ++turns[turn.worker];
    ++total;
  }
  if (total == 0) return;
  std::vector<WorkerShare>& shares = analysis.worker_shares;
  for (const results::WorkerLevelRecord& worker : level.workers) {
    const auto found = turns.find(worker.worker);
    shares.push_back({worker.worker, found == turns.end() ? 0 : found->second, 0});
    if (found != turns.end()) turns.erase(found);
  }
  for (const auto& [name, n] : turns) shares.push_back({name, n, 0});
  double largest = 0;
  for (WorkerShare& share : shares) {
    share.share = static_cast<double>(share.turns) / static_cast<double>(total);
    largest = std::max(largest, share.share);
  }
  analysis.imbalance = largest * static_cast<double>(shares.size());
}

PredictedCache predicted_cache(const std::vector<TurnSample>& turns) {
  PredictedCache predicted;
  double error = 0;
  for (const TurnSample& turn : turns) {
    if (turn.outcome != TurnOutcome::kSucceeded || !turn.predicted_cached_tokens) continue;
    ++predicted.turns;
    predicted.predicted_tokens += *turn.predicted_cached_tokens;
    predicted.cached_tokens += turn.cached_tokens;
    error += std::abs(static_cast<double>(*turn.predicted_cached_tokens) - static_cast<double>(turn.cached_tokens));
  }
  if (predicted.turns > 0) predicted.mean_absolute_error_tokens = error / static_cast<double>(predicted.turns);
  return predicted;
}

}  // namespace

bool counts_for_percentiles(const results::LevelRecord& level, const TurnSample& turn) {
  return turn.outcome == TurnOutcome::kSucceeded && in_window(level, turn.sent);
}

LevelAnalysis analyse(const results::LevelRecord& level, const spec::MethodSpec& method, Schedule schedule) {
  LevelAnalysis analysis;
  analysis.mode = level.mode;
  analysis.concurrency = level.concurrency;
  analysis.published = figures_of_snapshots(level.snapshots);
  add_exact_figures(level, analysis);
  if (schedule == Schedule::kOpen) add_figures_from_schedule(level, analysis.exact);
  add_goodput(level, method.goodput, schedule, analysis.exact);
  analysis.exact.lacks_earlier_turns = method.between_levels == spec::BetweenLevels::kContinue;
  add_errors(level, method, analysis);
  analysis.hit_rate = hit_rate(level);
  if (!level.workers.empty()) {
    analysis.prefilled_tokens = 0;
    for (const results::WorkerLevelRecord& worker : level.workers) {
      *analysis.prefilled_tokens += worker.prefilled_tokens;
    }
  }
  add_worker_shares(level, analysis);
  analysis.predicted = predicted_cache(level.turns);
  analysis.client = client_verdict(level.client, analysis.exact.ttft_ms, analysis.exact.itl_ms);
  return analysis;
}

}  // namespace kvist::analysis
