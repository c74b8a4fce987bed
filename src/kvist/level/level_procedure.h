// The procedure of a level: its steps, their order and times, and the handling of a load that does not end in time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/spec/sweep.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::level {

/// The current step. The driver carries it out and then calls on_done(), or on_overdue() if the step has a limit and
/// takes longer than `until`.
enum class LevelStep : std::uint8_t {
  kProveIdle,      ///< Prove that nothing is in flight at the client, in the gateway and in any worker; an error after
                   ///< `until`.
  kReadCounters,   ///< Read the workers' counters: the end of the previous level and the beginning of the next one.
  kStartLoad,      ///< Start the load: the first level begins.
  kRaiseLoad,      ///< Add conversations to the running ones: the next level begins.
  kAwaitSnapshot,  ///< Wait until `until`.
  kTakeSnapshot,   ///< Read the client's quantiles and rates, and the workers' gauges.
  kReadClient,     ///< Read the load generator's own health after the last snapshot.
  kDrain,          ///< Start no new turns. Done when none is in flight, overdue at `until`.
  kBreakOff,       ///< As kDrain, and abort the turns in flight.
  kEnd,            ///< The end. No further event is allowed.
};

struct LevelAction {
  LevelStep step = LevelStep::kEnd;
  std::size_t level = 0;              ///< index of the load's level; unused for the first kProveIdle and kReadCounters
  TimePoint until = {};               ///< of kProveIdle, kAwaitSnapshot, kDrain, kBreakOff
  std::uint32_t snapshot = 0;         ///< of kAwaitSnapshot and kTakeSnapshot: its number, from 1
  std::string remark = {};            ///< of kBreakOff: a remark for the level's record; may be empty
  std::optional<Error> failure = {};  ///< of kEnd: why the current level is incomplete
};

/// The instants of a level.
struct LevelTimes {
  TimePoint started;       ///< its load started
  TimePoint measure_from;  ///< end of the warm-up; the measurement ends with the last snapshot
};

/// The duration of one level's warm-up and snapshots.
[[nodiscard]] Duration measuring_time(const spec::MethodSpec& method);

/// One load through one level, or through several in ascending order (spec::BetweenLevels::kContinue): prove that
/// nothing is in flight, read the counters, start the load, warm up, take the snapshots. Between levels the load keeps
/// running while the counters are read. After the last level drain the turns in flight, prove idleness again and read
/// the counters again. A pure state machine, (event, now) -> action; the live sweep's calls or the simulation's event
/// queue drive it. Threads: one.
///
/// Each event returns one action. Invariant: whatever fails, the load has stopped at kEnd, unless even aborting it was
/// overdue.
class LevelProcedure {
 public:
  /// Requires: at least one level and one snapshot.
  LevelProcedure(const spec::MethodSpec& method, std::size_t levels);

  [[nodiscard]] LevelAction begin(TimePoint now);
  /// The last action is done.
  [[nodiscard]] LevelAction on_done(TimePoint now);
  /// The load that kStartLoad asked for begins at `at`, later than it was asked for: so do its level's times. To be
  /// called before on_done().
  void begins_at(TimePoint at);
  /// kDrain or kBreakOff was not done in time; `in_flight` turns remain.
  [[nodiscard]] LevelAction on_overdue(std::uint32_t in_flight, TimePoint now);
  /// The last action failed, or the user interrupted. If there is a load, its turns in flight are aborted.
  [[nodiscard]] LevelAction on_failed(TimePoint now);

  /// Levels that have begun; the last one is in progress until kEnd.
  [[nodiscard]] const std::vector<LevelTimes>& begun() const { return begun_; }
  /// At kEnd: the number of levels with all their readings. A level with a failure is not among them.
  [[nodiscard]] std::size_t complete() const;
  /// The due times of the current level's snapshots.
  [[nodiscard]] std::vector<TimePoint> snapshot_times() const;
  /// The level that a turn belongs to: the one in which it was sent. A turn that was never sent counts by the instant
  /// at which it should have been. Requires: a level has begun.
  [[nodiscard]] std::size_t level_of(const workload::TurnSample& turn) const;

 private:
  [[nodiscard]] LevelAction prove_idle(TimePoint now);
  [[nodiscard]] LevelAction begin_level(TimePoint now);
  [[nodiscard]] LevelAction await_snapshot();
  [[nodiscard]] LevelAction break_off(TimePoint now, std::string remark);
  [[nodiscard]] LevelAction act(LevelStep step, TimePoint until = {});
  [[nodiscard]] TimePoint snapshot_time(std::uint32_t snapshot) const;
  [[nodiscard]] bool is_last_level() const { return begun_.size() == levels_; }

  spec::MethodSpec method_;
  std::size_t levels_;
  std::vector<LevelTimes> begun_;
  LevelStep step_ = LevelStep::kEnd;
  std::uint32_t snapshot_ = 0;  // number of the current snapshot; 0: none of this level yet
  bool stopped_ = false;        // the load is draining or drained
  bool failed_ = false;
};

}  // namespace kvist::level
