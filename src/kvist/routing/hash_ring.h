// Consistent hashing: which worker a key belongs to, so that a worker that leaves moves only its own keys.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::routing {

/// Each worker has `points_per_worker` points on a ring of 64-bit numbers; a key belongs to the worker of the first
/// point at or after the key's own hash (Karger et al., 1997). Points follow from the worker's number alone, so every
/// gateway has the same ring. Memory: 16 bytes per point. One thread.
class HashRing {
 public:
  explicit HashRing(std::uint32_t points_per_worker) : points_per_worker_(points_per_worker) {}

  /// Puts the workers 0 .. `workers` - 1 on the ring; those on it stay where they are.
  void cover(std::uint32_t workers);

  /// The first worker from the key's place on that `accepts`, within one turn; nothing where none does.
  template <std::predicate<WorkerId> Accepts>
  [[nodiscard]] std::optional<WorkerId> first(std::uint64_t key, Accepts accepts) const {
    const std::size_t begin = place_of(key);
    for (std::size_t step = 0; step < points_.size(); ++step) {
      const std::size_t at = begin + step < points_.size() ? begin + step : begin + step - points_.size();
      if (accepts(points_[at].worker)) return points_[at].worker;
    }
    return std::nullopt;
  }

 private:
  struct Point {
    std::uint64_t at = 0;
    WorkerId worker;
  };
  [[nodiscard]] std::size_t place_of(std::uint64_t key) const;

  std::uint32_t points_per_worker_;
  std::uint32_t workers_ = 0;
  std::vector<Point> points_;  // ascending
};

}  // namespace kvist::routing
