#include "kvist/workload/open_arrivals.h"

#include <cmath>

#include "kvist/base/check.h"

namespace kvist::workload {

double gamma_variate(RandomStream& random, double shape) {
  if (shape < 1) {
    const double larger = gamma_variate(random, shape + 1);
    return larger * std::pow(1 - random.uniform(), 1 / shape);  // 1 - U: never 0
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal(0, 1);
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    const double u = 1 - random.uniform();
    if (std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
  }
}

OpenArrivals::OpenArrivals(const spec::ArrivalSpec& spec, double starts_per_second, std::uint64_t seed, TimePoint start)
    : spec_(spec),
      mean_gap_s_(1 / starts_per_second),
      random_(mix_seed({seed, seed_part("arrivals")})),
      start_(start),
      next_(start) {
  KVIST_CHECK(std::isfinite(starts_per_second) && starts_per_second > 0, "the rate of arrivals must be above 0");
  KVIST_CHECK(spec_.variation >= 1 && spec_.variation <= spec::kMaxArrivalVariation, "no such variation");
  KVIST_CHECK(spec_.max_conversations > 0, "room for at least one conversation");
  draw_next();
}

std::optional<TimePoint> OpenArrivals::try_start(TimePoint now) {
  while (next_ <= now) {
    const TimePoint due = next_;
    draw_next();
    if (alive_ < spec_.max_conversations) {
      ++alive_;
      return due;
    }
    ++refused_;
  }
  return std::nullopt;
}

void OpenArrivals::release(TimePoint) {
  KVIST_CHECK(alive_ > 0, "a conversation ended that had not begun");
  --alive_;
}

void OpenArrivals::draw_next() {
  if (spec_.kind == spec::ArrivalKind::kBursty) {
    const double variance = spec_.variation * spec_.variation;
    offset_s_ += mean_gap_s_ * variance * gamma_variate(random_, 1 / variance);
  } else {
    offset_s_ += random_.exponential(mean_gap_s_);
  }
  next_ = start_ + from_seconds(offset_s_);
}

}  // namespace kvist::workload
