#include "kvist/dashboard/sweep_progress.h"

#include <algorithm>

namespace kvist::dashboard {

std::string_view word(SweepState state) {
  switch (state) {
    case SweepState::kStarting:
      return "starting";
    case SweepState::kRunning:
      return "running";
    case SweepState::kFinished:
      return "finished";
    case SweepState::kFailed:
      return "failed";
  }
  return "failed";
}

std::string_view word(LevelState state) {
  switch (state) {
    case LevelState::kPlanned:
      return "planned";
    case LevelState::kRunning:
      return "running";
    case LevelState::kDone:
      return "done";
    case LevelState::kFailed:
      return "failed";
  }
  return "failed";
}

std::optional<std::size_t> SweepProgress::position() const {
  const auto found = std::ranges::find(levels, LevelState::kRunning, &SweepLevel::state);
  if (found == levels.end()) return std::nullopt;
  return static_cast<std::size_t>(found - levels.begin());
}

std::string_view SweepProgress::phase(TimePoint now) const {
  if (state == SweepState::kStarting) return "starting";
  const auto at = position();
  if (!at || !levels[*at].started) return "";
  if (draining) return "draining";
  return now - *levels[*at].started < warmup ? "warm_up" : "measuring";
}

Duration SweepProgress::level_time() const {
  // Levels begin one after the other, so what is between two begins includes the drain and what comes between.
  std::optional<TimePoint> first;
  std::optional<TimePoint> last;
  std::int64_t ended = 0;
  for (const SweepLevel& level : levels) {
    if (level.state != LevelState::kDone || !level.started || !level.ended) continue;
    first = first ? std::min(*first, *level.started) : *level.started;
    last = last ? std::max(*last, *level.ended) : *level.ended;
    ++ended;
  }
  if (ended == 0) return warmup + measuring;
  return (*last - *first) / ended;
}

Duration SweepProgress::left(TimePoint now) const {
  Duration sum{};
  const Duration each = level_time();
  for (const SweepLevel& level : levels) {
    if (level.state == LevelState::kPlanned) sum += each;
    if (level.state == LevelState::kRunning && level.started) {
      sum += std::max<Duration>(each - (now - *level.started), std::chrono::seconds(1));
    }
  }
  return sum;
}

double SweepProgress::progress(TimePoint now) const {
  if (state == SweepState::kFinished) return 1;
  const double ahead = to_seconds(left(now));
  const double behind = to_seconds(std::max(Duration{}, now - begun));
  return ahead + behind > 0 ? behind / (ahead + behind) : 0;
}

std::optional<TimePoint> SweepProgress::estimated_end(TimePoint now) const {
  if (state == SweepState::kFinished || state == SweepState::kFailed || levels.empty()) return std::nullopt;
  return now + left(now);
}

}  // namespace kvist::dashboard
