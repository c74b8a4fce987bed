#include "kvist/level/level_procedure.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::level {
namespace {

constexpr Duration kIdleTimeout = std::chrono::seconds(30);
constexpr Duration kBreakOffTimeout = std::chrono::seconds(10);

}  // namespace

Duration measuring_time(const spec::MethodSpec& method) {
  return method.warmup + method.snapshots * method.snapshot_interval;
}

LevelProcedure::LevelProcedure(const spec::MethodSpec& method, std::size_t levels) : method_(method), levels_(levels) {
  KVIST_CHECK(levels > 0 && method.snapshots > 0, "a level is measured by at least one snapshot");
}

LevelAction LevelProcedure::begin(TimePoint now) {
  KVIST_CHECK(begun_.empty() && step_ == LevelStep::kEnd, "a procedure is begun once");
  return prove_idle(now);
}

LevelAction LevelProcedure::on_done(TimePoint now) {
  switch (step_) {
    case LevelStep::kProveIdle:
      return act(LevelStep::kReadCounters);
    case LevelStep::kReadCounters:
      return stopped_ ? act(LevelStep::kEnd) : begin_level(now);
    case LevelStep::kStartLoad:
    case LevelStep::kRaiseLoad:
      return await_snapshot();
    case LevelStep::kAwaitSnapshot:
      return act(LevelStep::kTakeSnapshot);
    case LevelStep::kTakeSnapshot:
      if (snapshot_ < method_.snapshots) return await_snapshot();
      return act(LevelStep::kReadClient);
    case LevelStep::kReadClient:
      if (!is_last_level()) return act(LevelStep::kReadCounters);
      stopped_ = true;
      return act(LevelStep::kDrain, now + method_.drain_timeout);
    case LevelStep::kDrain:
      return prove_idle(now);
    case LevelStep::kBreakOff:
      return failed_ ? act(LevelStep::kEnd) : prove_idle(now);
    case LevelStep::kEnd:
      break;
  }
  KVIST_CHECK(false, "nothing is asked for before begin() and after kEnd");
  return {};
}

void LevelProcedure::begins_at(TimePoint at) {
  KVIST_CHECK(step_ == LevelStep::kStartLoad && at >= begun_.back().started, "only the start of a load can be delayed");
  begun_.back() = {.started = at, .measure_from = at + method_.warmup};
}

LevelAction LevelProcedure::on_overdue(std::uint32_t in_flight, TimePoint now) {
  if (step_ == LevelStep::kDrain) {
    return break_off(now, fmt::format("{} turns had not ended {} s after the last snapshot and were broken off",
                                      in_flight, to_seconds(method_.drain_timeout)));
  }
  KVIST_CHECK(step_ == LevelStep::kBreakOff, "only the end of a load can be overdue");
  failed_ = true;
  LevelAction end = act(LevelStep::kEnd);
  end.failure = Error{ErrorCode::kDeadlineExceeded, "the load generator does not come to a stop"};
  return end;
}

LevelAction LevelProcedure::on_failed(TimePoint now) {
  failed_ = true;
  return begun_.empty() ? act(LevelStep::kEnd) : break_off(now, "");
}

std::size_t LevelProcedure::complete() const {
  return failed_ && !begun_.empty() ? begun_.size() - 1 : begun_.size();
}

std::vector<TimePoint> LevelProcedure::snapshot_times() const {
  std::vector<TimePoint> times;
  for (std::uint32_t i = 1; i <= method_.snapshots; ++i) times.push_back(snapshot_time(i));
  return times;
}

std::size_t LevelProcedure::level_of(const workload::TurnSample& turn) const {
  const TimePoint sent = turn.sent == TimePoint{} ? turn.intended : turn.sent;
  const auto next = std::ranges::upper_bound(begun_, sent, {}, &LevelTimes::started);
  const auto begun = static_cast<std::size_t>(next - begun_.begin());
  return begun == 0 ? 0 : begun - 1;
}

LevelAction LevelProcedure::prove_idle(TimePoint now) {
  return act(LevelStep::kProveIdle, now + kIdleTimeout);
}

LevelAction LevelProcedure::begin_level(TimePoint now) {
  const bool is_first = begun_.empty();
  begun_.push_back({.started = now, .measure_from = now + method_.warmup});
  snapshot_ = 0;
  return act(is_first ? LevelStep::kStartLoad : LevelStep::kRaiseLoad);
}

LevelAction LevelProcedure::await_snapshot() {
  ++snapshot_;
  return act(LevelStep::kAwaitSnapshot, snapshot_time(snapshot_));
}

LevelAction LevelProcedure::break_off(TimePoint now, std::string remark) {
  stopped_ = true;
  LevelAction action = act(LevelStep::kBreakOff, now + kBreakOffTimeout);
  action.remark = std::move(remark);
  return action;
}

LevelAction LevelProcedure::act(LevelStep step, TimePoint until) {
  step_ = step;
  LevelAction action{.step = step, .until = until, .snapshot = snapshot_};
  if (!begun_.empty()) action.level = begun_.size() - 1;
  return action;
}

TimePoint LevelProcedure::snapshot_time(std::uint32_t snapshot) const {
  return begun_.back().measure_from + snapshot * method_.snapshot_interval;
}

}  // namespace kvist::level
