// Starts of conversations in a closed loop: an absolute schedule with a limit on how many are alive.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "kvist/base/time.h"

namespace kvist::workload {

/// The rules of starts:
///  - Slot k of the schedule is at `start` + k / rate, computed from k, so that the schedule does not drift.
///  - A conversation needs a slot and one of `places`. It is due at the slot's instant or when the place became free,
///    whichever is later. Slots are used in order.
///  - A start that is late because the client's thread was busy keeps its slot and its due instant. So the delay is
///    visible in the samples, and the schedule is not shifted.
///  - Slots that pass while all places are taken wait, up to as many as there are places; older ones are dropped and
///    counted. So starts in any span T never exceed places + rate x T, and no backlog accumulates if the concurrency
///    limit makes the target unreachable.
/// Without a rate (0) a conversation only needs a place, and nothing is dropped.
/// Places and rate can be changed while it runs. Fewer places take effect as conversations end, more at once. The
/// schedule goes on from the instant of the change at the new rate; the part of a gap that has passed counts at the old
/// one.
/// Only the times of release() and of changes matter: polling more or less often changes nothing. Threads: one. Memory:
/// one instant per free place.
class Pacer {
 public:
  /// The first slot is so many gaps after `start`. Requires: rate >= 0 and at least one place.
  Pacer(double starts_per_second, std::uint32_t places, TimePoint start, double first_slot = 0);

  /// When the next start is due, which may be in the past; nothing while all places are taken.
  [[nodiscard]] std::optional<TimePoint> next_start() const;
  /// If a start is due by `now`, takes a slot and a place and returns since when it was due.
  [[nodiscard]] std::optional<TimePoint> try_start(TimePoint now);
  /// Takes a place without a slot, for a conversation that has begun; returns since when the place was free. Nothing
  /// while all are taken.
  [[nodiscard]] std::optional<TimePoint> try_take_place();
  /// Sets the number of places. Added ones are free since `now`; of those taken away, free ones go first, and the
  /// others are not given out again. Requires: at least one.
  void set_places(std::uint32_t places, TimePoint now);
  /// Sets the starts per second from `now` on; 0: no limit. Requires: what is due by `now` was started.
  void set_rate(double starts_per_second, TimePoint now);
  /// Gives a place back. Requires: one to be taken.
  void release(TimePoint now);

  /// May be above places() after these were lowered.
  [[nodiscard]] std::uint32_t taken() const { return taken_; }
  [[nodiscard]] std::uint32_t places() const { return places_; }
  [[nodiscard]] double rate() const { return rate_; }
  /// The number of slots that were dropped because all places were taken for too long. By so many starts the target
  /// rate was missed.
  [[nodiscard]] std::uint64_t dropped_slots() const { return dropped_slots_; }

 private:
  [[nodiscard]] TimePoint slot_time(std::uint64_t slot) const;
  /// The number of slots at or before `now`.
  [[nodiscard]] std::uint64_t slots_until(TimePoint now) const;
  /// Drops slots that passed while all places were taken, except for the last as many as there are places.
  void drop_old_slots(TimePoint now);

  double rate_;
  std::uint32_t places_;
  std::uint32_t taken_ = 0;
  TimePoint anchor_;        // of the schedule: its start, or the last change of its rate
  double anchor_slot_ = 0;  // that is at the anchor; between two slots a fraction
  std::uint64_t next_slot_ = 0;
  std::uint64_t dropped_slots_ = 0;
  std::deque<TimePoint> free_since_;  // one per free place, the longest free first
};

}  // namespace kvist::workload
