#include "kvist/analysis/timeline_view.h"

#include <algorithm>
#include <map>

#include "kvist/base/statistics.h"

namespace kvist::analysis {
namespace {

using results::TimelinePoint;
using results::WorkerTimeline;
using workload::TurnSample;

/// Merges `point` into `joined`, which comes before it.
void join(TimelinePoint& joined, const TimelinePoint& point) {
  joined.at = point.at;
  joined.running = std::max(joined.running, point.running);
  joined.waiting = std::max(joined.waiting, point.waiting);
  joined.kv_blocks_used = std::max(joined.kv_blocks_used, point.kv_blocks_used);
  joined.evictions = point.evictions;
  joined.preemptions = point.preemptions;
  joined.prefill_backlog_tokens = std::max(joined.prefill_backlog_tokens, point.prefill_backlog_tokens);
  joined.step_ms = std::max(joined.step_ms, point.step_ms);
}

std::vector<TimelinePoint> thinned(const std::vector<TimelinePoint>& points) {
  if (points.size() <= kMaxDrawnPoints) return points;
  std::vector<TimelinePoint> thin;
  for (std::size_t i = 0; i < kMaxDrawnPoints; ++i) {
    const std::size_t begin = i * points.size() / kMaxDrawnPoints;
    const std::size_t end = (i + 1) * points.size() / kMaxDrawnPoints;
    thin.push_back(points[begin]);
    for (std::size_t j = begin + 1; j < end; ++j) join(thin.back(), points[j]);
  }
  return thin;
}

/// All workers in their order, or those with the most slow turns.
std::vector<const WorkerTimeline*> drawn_workers(const results::LevelRecord& level, const std::vector<SlowTurn>& slow) {
  std::map<std::string, std::size_t> turns;
  for (const SlowTurn& turn : slow) ++turns[turn.worker];
  std::vector<const WorkerTimeline*> workers;
  for (const WorkerTimeline& timeline : level.timelines) workers.push_back(&timeline);
  if (workers.size() <= kMaxDrawnWorkers) return workers;
  std::ranges::stable_sort(
      workers, [&](const WorkerTimeline* a, const WorkerTimeline* b) { return turns[a->worker] > turns[b->worker]; });
  workers.resize(kMaxDrawnWorkers);
  std::ranges::sort(workers, {}, [](const WorkerTimeline* w) { return w; });  // their order in the record
  return workers;
}

/// Every turn with a first token, by the instant it was sent.
std::vector<const TurnSample*> answered_turns(const results::LevelRecord& level) {
  std::vector<const TurnSample*> turns;
  for (const TurnSample& turn : level.turns) {
    if (turn.outcome == workload::TurnOutcome::kSucceeded && turn.first_token != TimePoint{}) turns.push_back(&turn);
  }
  std::ranges::stable_sort(turns, {}, [](const TurnSample* turn) { return turn->sent; });
  return turns;
}

double window_p95(const results::LevelRecord& level, const std::vector<const TurnSample*>& turns) {
  std::vector<double> ttft;
  for (const TurnSample* turn : turns) {
    if (turn->sent >= level.measure_from && turn->sent <= level.measure_to) ttft.push_back(turn->ttft_ms());
  }
  return describe(std::move(ttft)).p95;
}

/// At most `limit` of them, evenly picked.
std::vector<TurnDot> picked(const std::vector<TurnDot>& dots, std::size_t limit) {
  if (dots.size() <= limit) return dots;
  std::vector<TurnDot> some;
  for (std::size_t i = 0; i < limit; ++i) some.push_back(dots[i * dots.size() / limit]);
  return some;
}

void add_dots(const results::LevelRecord& level, const std::vector<const TurnSample*>& turns, TimelineView& view) {
  std::vector<TurnDot> usual;
  std::vector<TurnDot> slow;
  for (const TurnSample* turn : turns) {
    const auto track = std::ranges::find(view.tracks, turn->worker, &WorkerTrack::worker);
    TurnDot dot{.second = to_seconds(turn->sent - level.started),
                .ttft_ms = turn->ttft_ms(),
                .track = static_cast<std::size_t>(track - view.tracks.begin()),
                .slow = false};
    dot.slow = dot.second >= view.measure_from_s && dot.second <= view.measure_to_s && dot.ttft_ms > view.ttft_p95_ms;
    (dot.slow ? slow : usual).push_back(dot);
  }
  std::ranges::stable_sort(slow, [](const TurnDot& a, const TurnDot& b) { return a.ttft_ms > b.ttft_ms; });
  slow.resize(std::min(slow.size(), kMaxDrawnSlowTurns));
  view.dots = picked(usual, kMaxDrawnTurns);
  view.dots.insert(view.dots.end(), slow.begin(), slow.end());
}

}  // namespace

TimelineView condense(const results::LevelRecord& level) {
  TimelineView view;
  if (std::ranges::all_of(level.timelines, [](const WorkerTimeline& t) { return t.points.empty(); })) return view;
  const std::vector<const TurnSample*> turns = answered_turns(level);
  view.ttft_p95_ms = window_p95(level, turns);
  view.measure_from_s = to_seconds(level.measure_from - level.started);
  view.measure_to_s = to_seconds(level.measure_to - level.started);
  view.slowest = find_slow_turns(level, view.ttft_p95_ms);
  view.causes = count_causes(view.slowest);
  view.workers = level.timelines.size();
  for (const WorkerTimeline* timeline : drawn_workers(level, view.slowest)) {
    view.tracks.push_back({.worker = timeline->worker,
                           .kv_blocks = timeline->kv_blocks,
                           .max_batch_size = timeline->max_batch_size,
                           .points = thinned(timeline->points),
                           .seconds = {}});
    for (const TimelinePoint& point : view.tracks.back().points) {
      view.tracks.back().seconds.push_back(to_seconds(point.at - level.started));
    }
  }
  add_dots(level, turns, view);
  if (view.slowest.size() > kListedSlowTurns) view.slowest.resize(kListedSlowTurns);
  return view;
}

}  // namespace kvist::analysis
