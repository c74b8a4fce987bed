// When conversations start: an absolute schedule under a limit on how many are alive.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "kvist/base/time.h"

namespace kvist::workload {

/// The rule of starts:
///  - Slot k of the schedule is at `start` + k / rate, computed from k, so that nothing drifts.
///  - A conversation needs a slot and a place (of `places`). It is due at the later of the two: the slot's instant, or
///    the instant the place became free. Slots are used in order.
///  - A start that the client itself makes late (its thread was busy) keeps its slot and its due instant: the delay
///    shows in the samples and the schedule loses nothing.
///  - Slots that pass while all places are taken wait, as many as there are places; older ones are dropped and counted.
///    So starts in any span T never exceed places + rate x T, and a target that the concurrency limit cannot reach
///    leaves no endless debt behind.
/// Depends on the instants of its calls only through place releases: polling it more or less often changes nothing.
/// One thread; memory is one instant per free place.
class Pacer {
 public:
  /// Requires rate > 0 and at least one place.
  Pacer(double starts_per_second, std::uint32_t places, TimePoint start);

  /// When the next start is due, perhaps in the past; nothing while all places are taken.
  [[nodiscard]] std::optional<TimePoint> next_start() const;
  /// Takes a slot and a place if a start is due by `now`, and says since when it was.
  [[nodiscard]] std::optional<TimePoint> try_start(TimePoint now);
  /// From now on there are so many places; those added are free since `now`. Requires no fewer than there are.
  void raise(std::uint32_t places, TimePoint now);
  /// Gives a place back. Requires one to be taken.
  void release(TimePoint now);

  [[nodiscard]] std::uint32_t taken() const { return places_ - static_cast<std::uint32_t>(free_since_.size()); }
  [[nodiscard]] std::uint32_t places() const { return places_; }
  /// Slots that no conversation used because all places were taken for too long: by so many starts the target rate was
  /// missed.
  [[nodiscard]] std::uint64_t dropped_slots() const { return dropped_slots_; }

 private:
  [[nodiscard]] TimePoint slot_time(std::uint64_t slot) const;
  /// How many slots lie at or before `now`.
  [[nodiscard]] std::uint64_t slots_until(TimePoint now) const;
  /// Of the slots that passed while all places were taken, keeps as many as there are places.
  void drop_old_slots(TimePoint now);

  double rate_;
  std::uint32_t places_;
  TimePoint start_;
  std::uint64_t next_slot_ = 0;
  std::uint64_t dropped_slots_ = 0;
  std::deque<TimePoint> free_since_;  // one per free place, the longest free first
};

}  // namespace kvist::workload
