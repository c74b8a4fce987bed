#include "kvist/routing/hash_ring.h"

#include <algorithm>
#include <utility>

#include "kvist/base/random.h"

namespace kvist::routing {

void HashRing::cover(std::uint32_t workers) {
  if (workers <= workers_) return;
  const std::uint64_t purpose = seed_part("hash ring");
  points_.reserve(std::size_t{workers} * points_per_worker_);
  for (; workers_ < workers; ++workers_) {
    for (std::uint32_t i = 0; i < points_per_worker_; ++i) {
      points_.push_back({.at = mix_seed({purpose, workers_, i}), .worker = WorkerId(workers_)});
    }
  }
  // Equal points, should there ever be any, keep one order.
  std::ranges::sort(points_, {}, [](const Point& point) { return std::pair(point.at, point.worker); });
}

std::size_t HashRing::place_of(std::uint64_t key) const {
  const std::uint64_t at = mix_seed({seed_part("ring key"), key});
  return static_cast<std::size_t>(std::ranges::lower_bound(points_, at, {}, &Point::at) - points_.begin());
}

}  // namespace kvist::routing
