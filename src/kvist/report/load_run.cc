#include "kvist/report/load_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/workload/arrival_profile.h"

namespace kvist::report {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

bool in_window(const results::LevelRecord& level, TimePoint at) {
  return at >= level.measure_from && at <= level.measure_to;
}

/// When a turn was sent; one that never was counts by when it should have been.
TimePoint sent_or_intended(const TurnSample& turn) {
  return turn.sent == TimePoint{} ? turn.intended : turn.sent;
}

LoadTotals totals_of(const results::LevelRecord& level) {
  LoadTotals totals;
  for (const TurnSample& turn : level.turns) {
    if (!sent_in_window(level, turn)) continue;
    ++totals.sent;
    totals.failed += turn.outcome == TurnOutcome::kFailed ? 1 : 0;
    totals.abandoned += turn.outcome == TurnOutcome::kAbandoned ? 1 : 0;
    if (turn.outcome != TurnOutcome::kSucceeded) continue;
    ++totals.succeeded;
    totals.without_usage += turn.has_usage() ? 0 : 1;
    totals.prompt_tokens += turn.prompt_tokens;
    totals.cached_tokens += turn.cached_tokens;
    totals.reports_cached = totals.reports_cached || turn.reports_cached || turn.cached_tokens > 0;
    totals.output_tokens += turn.output_tokens();
  }
  return totals;
}

void add_rates(const results::LevelRecord& level, LoadFigures& figures) {
  figures.output_tokens_per_s = figures.exact().output_tokens_per_s;
  if (figures.window_s <= 0) return;
  std::size_t completed = 0;
  std::uint64_t prompt_tokens = 0;
  bool all_have_usage = true;
  for (const TurnSample& turn : level.turns) {
    if (turn.outcome != TurnOutcome::kSucceeded || !in_window(level, turn.ended)) continue;
    ++completed;
    prompt_tokens += turn.prompt_tokens;
    all_have_usage = all_have_usage && turn.has_usage();
  }
  figures.completed_per_s = static_cast<double>(completed) / figures.window_s;
  if (all_have_usage) figures.prompt_tokens_per_s = static_cast<double>(prompt_tokens) / figures.window_s;
}

void add_send_delay(const results::LevelRecord& level, LoadFigures& figures) {
  std::vector<double> delay;
  for (const TurnSample* turn : measured_turns(level)) delay.push_back(to_milliseconds(turn->sent - turn->intended));
  figures.send_delay_ms = describe(std::move(delay));
}

/// Of the turns within the window, as every other figure of a load; a level of a sweep counts its warm-up and drain
/// too, because its workers do.
void set_hit_rate(LoadFigures& figures) {
  const LoadTotals& t = figures.totals;
  std::optional<double> pct;
  if (t.knows_cached()) {
    pct = 100.0 * static_cast<double>(t.cached_tokens) / static_cast<double>(t.prompt_tokens);
  }
  figures.level.analysis.hit_rate.client_pct = pct;
  for (analysis::Measurement& measurement : figures.level.repetitions) {
    measurement.analysis.hit_rate.client_pct = pct;
  }
}

/// The law with the changes of its rate, as steps of its profile.
spec::ArrivalSpec ordered_arrivals(const LoadRun& run, double rate_per_s) {
  spec::ArrivalSpec arrivals = run.workload.arrivals;
  double before = rate_per_s;
  for (const workload::AppliedChange& applied : run.changes) {
    if (!applied.change.rate || before <= 0) continue;
    const Duration at = std::max(applied.at - run.level.started, Duration(0));
    arrivals.profile = workload::scaled_from(std::move(arrivals.profile), at, *applied.change.rate / before);
    before = *applied.change.rate;
  }
  return arrivals;
}

}  // namespace

bool reports_cached(const results::LevelRecord& level) {
  return std::ranges::any_of(level.turns,
                             [](const TurnSample& turn) { return turn.reports_cached || turn.cached_tokens > 0; });
}

bool sent_in_window(const results::LevelRecord& level, const TurnSample& turn) {
  return in_window(level, sent_or_intended(turn));
}

TimePoint last_sent(const std::vector<TurnSample>& turns, TimePoint start) {
  TimePoint last = start;
  for (const TurnSample& turn : turns) last = std::max(last, sent_or_intended(turn));
  return last;
}

std::optional<std::string> short_window_remark(const results::LevelRecord& level) {
  if (level.measure_from >= level.measure_to) {
    return std::string(
        "the last request was sent before the warm-up was over: nothing was measured (order more requests, a "
        "duration, or a shorter warm-up)");
  }
  std::size_t sent = 0;
  std::size_t ended = 0;
  for (const TurnSample& turn : level.turns) {
    if (sent_or_intended(turn) < level.measure_from) continue;
    ++sent;
    if (turn.ended <= level.measure_to) ++ended;
  }
  if (2 * ended >= sent) return std::nullopt;
  return fmt::format(
      "when the last request was sent, {} of {} answers had ended: rates over {:.2f} s say little (order "
      "more requests, or a duration)",
      ended, sent, to_seconds(level.measure_to - level.measure_from));
}

std::optional<std::string> connection_remark(const results::LevelRecord& level) {
  constexpr Duration kLong = std::chrono::milliseconds(100);
  std::size_t sent = 0;
  std::size_t late = 0;
  Duration longest{};
  for (const TurnSample& turn : level.turns) {
    if (turn.handed == TimePoint{} || !sent_in_window(level, turn)) continue;
    ++sent;
    const Duration took = turn.sent - turn.handed;
    if (took > kLong) ++late;
    longest = std::max(longest, took);
  }
  if (late == 0) return std::nullopt;
  return fmt::format(
      "{} of {} requests took more than {:.0f} ms to connect and send, up to {:.2f} s: TTFT begins when a request is "
      "sent and has none of that (the target, or what is before it, is slow to accept connections)",
      late, sent, to_milliseconds(kLong), to_seconds(longest));
}

std::vector<const TurnSample*> measured_turns(const results::LevelRecord& level) {
  std::vector<const TurnSample*> turns;
  for (const TurnSample& turn : level.turns) {
    if (analysis::counts_for_percentiles(level, turn)) turns.push_back(&turn);
  }
  std::ranges::stable_sort(turns, {}, [](const TurnSample* turn) { return turn->sent; });
  return turns;
}

LoadFigures figures_of(const LoadRun& run) {
  LoadFigures figures;
  std::vector<analysis::Measurement> measurements;
  measurements.push_back(
      analysis::measure(run.level, {.max_error_pct = 100}, nullptr, analysis::schedule_of(run.workload)));
  figures.level = analysis::merge_repetitions(std::move(measurements));
  figures.window_s = figures.exact().window_s;
  figures.totals = totals_of(run.level);
  set_hit_rate(figures);
  add_rates(run.level, figures);
  add_send_delay(run.level, figures);
  if (run.workload.arrivals.is_open() && run.workload.trace.file.empty()) {
    const double rate = run.rate_per_s.value_or(0);
    figures.arrivals = analysis::test_arrivals(run.level, ordered_arrivals(run, rate), rate, run.held_back);
  }
  return figures;
}

}  // namespace kvist::report
