// Starts of conversations in an open loop: arrivals at random gaps, whatever is in flight.
#pragma once

#include <cstdint>
#include <optional>

#include "kvist/base/random.h"
#include "kvist/base/time.h"
#include "kvist/spec/arrival_spec.h"

namespace kvist::workload {

/// A Gamma(shape, 1) variate, shape > 0: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000);
/// below a shape of 1 by Gamma(shape) = Gamma(shape + 1) x U^(1 / shape).
[[nodiscard]] double gamma_variate(RandomStream& random, double shape);

/// A renewal process: the gaps between arrivals, and the one before the first, are independent with mean 1 / rate.
/// Poisson: exponential. Bursty: gamma with shape 1 / variation^2 and scale variation^2 / rate, so that their standard
/// deviation is variation / rate (vLLM's `--burstiness` is that shape). The instants depend on (seed, rate, kind)
/// alone. An arrival is refused and counted if `max_conversations` are alive at the time when try_start() handles it,
/// which is late if the client is. Threads: one. Memory: constant.
class OpenArrivals {
 public:
  /// Requires: rate > 0, a variation from 1 to spec::kMaxArrivalVariation and max_conversations >= 1.
  OpenArrivals(const spec::ArrivalSpec& spec, double starts_per_second, std::uint64_t seed, TimePoint start);

  /// The next arrival, which may be in the past.
  [[nodiscard]] std::optional<TimePoint> next_start() const { return next_; }
  /// Handles the arrivals due by `now`: refuses those that exceed the limit, accepts the first that does not, and
  /// returns its instant.
  [[nodiscard]] std::optional<TimePoint> try_start(TimePoint now);
  /// A conversation ended. Requires: one to be alive.
  void release(TimePoint now);

  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 private:
  void draw_next();

  spec::ArrivalSpec spec_;
  double mean_gap_s_;
  RandomStream random_;
  TimePoint start_;
  double offset_s_ = 0;  // next_ minus start_; a sum, exact to far below a nanosecond over any run
  TimePoint next_;
  std::uint32_t alive_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace kvist::workload
