#include "kvist/workload/open_arrivals.h"

#include <algorithm>
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

OpenArrivals::OpenArrivals(const spec::ArrivalSpec& spec, double starts_per_second, std::uint64_t seed, TimePoint start,
                           const Shard& shard)
    : spec_(spec),
      mean_gap_s_(1 / starts_per_second),
      random_(mix_seed({seed, seed_part("arrivals")})),
      start_(start),
      shard_(shard),
      profile_(spec.profile),
      next_(start) {
  KVIST_CHECK(std::isfinite(starts_per_second) && starts_per_second > 0, "the rate of arrivals must be above 0");
  KVIST_CHECK(spec_.variation >= spec::kMinArrivalVariation && spec_.variation <= spec::kMaxArrivalVariation,
              "no such variation");
  spec_.max_conversations = shard_.share(spec_.max_conversations);
  KVIST_CHECK(spec_.max_conversations > 0 && spec_.burst_size > 0, "room for at least one conversation");
  draw_next();
}

std::optional<TimePoint> OpenArrivals::next_start() const {
  if (spec_.when_full == spec::WhenFull::kWait && is_full()) return std::nullopt;
  return next_;
}

std::optional<TimePoint> OpenArrivals::try_start(TimePoint now) {
  while (next_ && *next_ <= now) {
    if (is_full() && spec_.when_full == spec::WhenFull::kWait) return std::nullopt;
    const TimePoint due = *next_;
    const std::uint64_t number = number_;
    draw_next();
    if (!is_full()) {
      ++alive_;
      accepted_ = number;
      // Due while no place was free: it would have been accepted before otherwise.
      if (last_full_ && due < *last_full_) ++held_back_;
      return due;
    }
    ++refused_;
  }
  return std::nullopt;
}

std::uint64_t OpenArrivals::waiting(TimePoint now) const {
  constexpr std::uint64_t kMost = 1'000'000;
  if (spec_.when_full != spec::WhenFull::kWait || !is_full()) return 0;
  OpenArrivals rest = *this;
  std::uint64_t waiting = 0;
  for (; rest.next_ && *rest.next_ <= now && waiting < kMost; rest.draw_next()) ++waiting;
  return waiting;
}

void OpenArrivals::release(TimePoint now) {
  KVIST_CHECK(alive_ > 0, "a conversation ended that had not begun");
  if (is_full()) last_full_ = now;
  --alive_;
}

double OpenArrivals::next_offset() {
  const std::uint64_t number = drawn_++;
  switch (spec_.kind) {
    case spec::ArrivalKind::kConstant:
      return static_cast<double>(number) * mean_gap_s_;
    case spec::ArrivalKind::kBursts:
      if (number % spec_.burst_size == 0) offset_s_ += random_.exponential(mean_gap_s_ * spec_.burst_size);
      return offset_s_;
    case spec::ArrivalKind::kBursty: {
      const double variance = spec_.variation * spec_.variation;
      offset_s_ += mean_gap_s_ * variance * gamma_variate(random_, 1 / variance);
      return offset_s_;
    }
    case spec::ArrivalKind::kPoisson:
    case spec::ArrivalKind::kClosed:
      break;
  }
  offset_s_ += random_.exponential(mean_gap_s_);
  return offset_s_;
}

std::optional<TimePoint> OpenArrivals::instant_of(double offset) const {
  const auto rate = std::ranges::find_if(rates_.rbegin(), rates_.rend() - 1,
                                         [offset](const RateChange& change) { return change.offset_s <= offset; });
  // Without a change the offset is the area, to the last bit.
  const double area = rate->area_s + (offset - rate->offset_s) * rate->stretch;
  if (spec_.profile.empty()) return start_ + from_seconds(area);
  const std::optional<double> instant = profile_.instant_of(area);
  // Later than a century is never, and would not fit into the time's type.
  return instant && *instant < 3e9 ? std::optional(start_ + from_seconds(*instant)) : std::nullopt;
}

void OpenArrivals::draw_next() {
  do {
    number_ = drawn_;
    next_offset_s_ = next_offset();
  } while (!shard_.has(number_));
  while (rates_.size() > 1 && rates_[1].offset_s <= next_offset_s_) rates_.erase(rates_.begin());
  next_ = instant_of(next_offset_s_);
}

void OpenArrivals::set_rate(double starts_per_second, TimePoint now) {
  KVIST_CHECK(std::isfinite(starts_per_second) && starts_per_second > 0, "the rate of arrivals must be above 0");
  const double seconds = std::max(0.0, to_seconds(now - start_));
  const double area = spec_.profile.empty() ? seconds : profile_.area_until(seconds);
  const RateChange& before = rates_.back();
  rates_.push_back({.offset_s = before.offset_s + (area - before.area_s) / before.stretch,
                    .area_s = area,
                    .stretch = 1 / (mean_gap_s_ * starts_per_second)});
  if (!next_ || *next_ > now) next_ = instant_of(next_offset_s_);
}

void OpenArrivals::set_limit(std::uint32_t max_conversations, TimePoint now) {
  KVIST_CHECK(max_conversations > 0, "room for at least one conversation");
  const bool was_full = is_full();
  spec_.max_conversations = max_conversations;
  if (was_full && !is_full()) last_full_ = now;
}

}  // namespace kvist::workload
