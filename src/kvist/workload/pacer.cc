#include "kvist/workload/pacer.h"

#include <algorithm>
#include <cmath>

#include "kvist/base/check.h"

namespace kvist::workload {

Pacer::Pacer(double starts_per_second, std::uint32_t places, TimePoint start, double first_slot)
    : rate_(starts_per_second), places_(places), anchor_(start), anchor_slot_(-first_slot), free_since_(places, start) {
  KVIST_CHECK(std::isfinite(rate_) && rate_ >= 0, "the rate of starts must not be below 0");
  KVIST_CHECK(places_ > 0, "at least one place");
}

TimePoint Pacer::slot_time(std::uint64_t slot) const {
  if (rate_ == 0) return anchor_;  // every slot is there from the beginning
  return anchor_ + from_seconds((static_cast<double>(slot) - anchor_slot_) / rate_);
}

std::uint64_t Pacer::slots_until(TimePoint now) const {
  if (now < anchor_) return next_slot_;
  // The estimate may be off by one because of rounding; slot_time() decides.
  auto slots = static_cast<std::uint64_t>(std::max(0.0, to_seconds(now - anchor_) * rate_ + anchor_slot_));
  while (slots > 0 && slot_time(slots - 1) > now) --slots;
  while (slot_time(slots) <= now) ++slots;
  return slots;
}

std::optional<TimePoint> Pacer::next_start() const {
  if (free_since_.empty()) return std::nullopt;
  return std::max(slot_time(next_slot_), free_since_.front());
}

std::optional<TimePoint> Pacer::try_start(TimePoint now) {
  const std::optional<TimePoint> due = next_start();
  if (!due || *due > now) return std::nullopt;
  ++next_slot_;
  ++taken_;
  free_since_.pop_front();
  return due;
}

std::optional<TimePoint> Pacer::try_take_place() {
  if (free_since_.empty()) return std::nullopt;
  const TimePoint since = free_since_.front();
  ++taken_;
  free_since_.pop_front();
  return since;
}

void Pacer::drop_old_slots(TimePoint now) {
  // While a place is free, slots are overdue only because the client is late, so none is dropped.
  if (rate_ == 0 || !free_since_.empty()) return;
  const std::uint64_t passed = slots_until(now);
  const std::uint64_t waiting = passed > next_slot_ ? passed - next_slot_ : 0;
  if (waiting > places_) {
    dropped_slots_ += waiting - places_;
    next_slot_ += waiting - places_;
  }
}

void Pacer::set_places(std::uint32_t places, TimePoint now) {
  KVIST_CHECK(places > 0, "at least one place");
  drop_old_slots(now);
  places_ = places;
  const std::size_t free = places > taken_ ? places - taken_ : 0;
  free_since_.resize(free, now);  // of those that are free, the longest free stay
}

void Pacer::set_rate(double starts_per_second, TimePoint now) {
  KVIST_CHECK(std::isfinite(starts_per_second) && starts_per_second >= 0, "the rate of starts must not be below 0");
  drop_old_slots(now);
  // Without a rate nothing has passed of the gap before the next slot, which is there now.
  const double passed =
      rate_ == 0 ? static_cast<double>(next_slot_) : anchor_slot_ + std::max(0.0, to_seconds(now - anchor_)) * rate_;
  anchor_slot_ = passed;
  anchor_ = now;
  rate_ = starts_per_second;
}

void Pacer::release(TimePoint now) {
  KVIST_CHECK(taken_ > 0, "a place was given back that nobody had");
  drop_old_slots(now);
  --taken_;
  if (taken_ + free_since_.size() < places_) free_since_.push_back(now);
}

}  // namespace kvist::workload
