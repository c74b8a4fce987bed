#include "kvist/workload/pacer.h"

#include <algorithm>
#include <cmath>

#include "kvist/base/check.h"

namespace kvist::workload {

Pacer::Pacer(double starts_per_second, std::uint32_t places, TimePoint start)
    : rate_(starts_per_second), places_(places), start_(start), free_since_(places, start) {
  KVIST_CHECK(std::isfinite(rate_) && rate_ >= 0, "the rate of starts must not be below 0");
  KVIST_CHECK(places_ > 0, "at least one place");
}

TimePoint Pacer::slot_time(std::uint64_t slot) const {
  if (rate_ == 0) return start_;  // every slot is there from the beginning
  return start_ + from_seconds(static_cast<double>(slot) / rate_);
}

std::uint64_t Pacer::slots_until(TimePoint now) const {
  if (now < start_) return 0;
  // The estimate may be off by one because of rounding; slot_time() decides.
  auto slots = static_cast<std::uint64_t>(to_seconds(now - start_) * rate_);
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
  free_since_.pop_front();
  return due;
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

void Pacer::raise(std::uint32_t places, TimePoint now) {
  KVIST_CHECK(places >= places_, "places are added, never taken away");
  drop_old_slots(now);
  free_since_.insert(free_since_.end(), places - places_, now);
  places_ = places;
}

void Pacer::release(TimePoint now) {
  KVIST_CHECK(taken() > 0, "a place was given back that nobody had");
  drop_old_slots(now);
  free_since_.push_back(now);
}

}  // namespace kvist::workload
