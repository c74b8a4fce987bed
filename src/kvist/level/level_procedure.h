// The procedure of a level: what is done when, in which order, and what becomes of a load that does not end in time.
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

/// What is to be done now. The driver does it and says so with on_done(); where it takes longer than `until` and the
/// comment speaks of that, with on_overdue().
enum class LevelStep : std::uint8_t {
  kProveIdle,      ///< Nothing is in flight: at the client, in the gateway, in any worker. An error after `until`.
  kReadCounters,   ///< The workers' counters: the end of the level before, the beginning of the next one.
  kStartLoad,      ///< The first level begins: its load starts.
  kRaiseLoad,      ///< The next level begins: more conversations join those that run.
  kAwaitSnapshot,  ///< Until the time is `until`.
  kTakeSnapshot,   ///< The client's quantiles and rates, the workers' gauges.
  kReadClient,     ///< The last snapshot is taken: how did the load generator itself do?
  kDrain,          ///< No new turn from now on. Done when none is in flight, overdue at `until`.
  kBreakOff,       ///< The same, and turns in flight are broken off.
  kEnd,            ///< It is over. No event comes any more.
};

struct LevelAction {
  LevelStep step = LevelStep::kEnd;
  std::size_t level = 0;              ///< which of the load's levels; not of the first kProveIdle and kReadCounters
  TimePoint until = {};               ///< of kProveIdle, kAwaitSnapshot, kDrain, kBreakOff
  std::uint32_t snapshot = 0;         ///< of kAwaitSnapshot and kTakeSnapshot: which one, from 1
  std::string remark = {};            ///< of kBreakOff: what a reader of the level's record must know; may be empty
  std::optional<Error> failure = {};  ///< of kEnd: why the level under way has no end
};

/// When a level was measured.
struct LevelTimes {
  TimePoint started;       ///< its load began to run
  TimePoint measure_from;  ///< end of the warm-up; it is measured until its last snapshot
};

/// Warm-up and snapshots of one level.
[[nodiscard]] Duration measuring_time(const spec::MethodSpec& method);

/// One load through one level, or through several in ascending order (spec::BetweenLevels::kContinue): prove that
/// nothing is in flight, read the counters, drive load, warm up, take the snapshots; from one level to the next nothing
/// drains, and the counters are read beside the running load; after the last one let the turns in flight end, prove
/// idleness again, read the counters again. Pure: (event, now) -> action; the live sweep's calls and the simulation's
/// event queue drive it. One thread.
///
/// Each event gives one action. Invariant: whatever fails, no load is driven any more at kEnd, unless even breaking it
/// off was overdue.
class LevelProcedure {
 public:
  /// Requires at least one level and one snapshot.
  LevelProcedure(const spec::MethodSpec& method, std::size_t levels);

  [[nodiscard]] LevelAction begin(TimePoint now);
  /// What the last action asked for is done.
  [[nodiscard]] LevelAction on_done(TimePoint now);
  /// kDrain or kBreakOff was not done in time; so many turns are still in flight.
  [[nodiscard]] LevelAction on_overdue(std::uint32_t in_flight, TimePoint now);
  /// What the last action asked for failed, or the user gave up: what is in flight is broken off, if anything can be.
  [[nodiscard]] LevelAction on_failed(TimePoint now);

  /// Levels that have begun; the last of them is under way until kEnd.
  [[nodiscard]] const std::vector<LevelTimes>& begun() const { return begun_; }
  /// At kEnd: how many levels have all their readings. After a failure the one during which it happened has not.
  [[nodiscard]] std::size_t complete() const;
  /// When the snapshots of the level under way are due.
  [[nodiscard]] std::vector<TimePoint> snapshot_times() const;
  /// The level that a turn belongs to: the one in which it was sent. A turn that was never sent counts by the instant
  /// at which it should have been. Requires that a level has begun.
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
  std::uint32_t snapshot_ = 0;  // awaited or taken; 0: none of this level
  bool stopped_ = false;        // the load: it drains or has drained
  bool failed_ = false;
};

}  // namespace kvist::level
