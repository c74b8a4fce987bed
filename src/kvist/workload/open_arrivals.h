// Starts of conversations in an open loop: arrivals at random gaps, whatever is in flight.
#pragma once

#include <cstdint>
#include <optional>

#include "kvist/base/random.h"
#include "kvist/base/time.h"
#include "kvist/spec/arrival_spec.h"
#include "kvist/workload/arrival_profile.h"

namespace kvist::workload {

/// A Gamma(shape, 1) variate, shape > 0: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000);
/// below a shape of 1 by Gamma(shape) = Gamma(shape + 1) x U^(1 / shape).
[[nodiscard]] double gamma_variate(RandomStream& random, double shape);

/// A schedule of arrivals, each instant computed from (specification, rate, seed) alone: the same whoever draws it,
/// however late, and whatever is in flight. The gaps between arrivals, and the one before the first, are independent
/// with mean 1 / rate.
///  - Poisson: exponential. Bursty: gamma with shape 1 / variation^2 and scale variation^2 / rate, so that their
///    standard deviation is variation / rate (vLLM's `--burstiness` is that shape).
///  - Constant: arrival k at k / rate, so that nothing drifts. Bursts: `burst_size` at one instant, exponential gaps
///    with mean burst_size / rate between these.
///  - With a profile the process runs in the profile's time (ArrivalProfile): its rate changes, its law does not.
/// An arrival that finds `max_conversations` alive is refused and counted at the time when try_start() handles it,
/// which is late if the client is; or it waits (spec::WhenFull), and is still due at its own instant. Threads: one.
/// Memory: constant.
class OpenArrivals {
 public:
  /// Requires: rate > 0, a variation from 1 to spec::kMaxArrivalVariation and max_conversations >= 1.
  OpenArrivals(const spec::ArrivalSpec& spec, double starts_per_second, std::uint64_t seed, TimePoint start);

  /// The next arrival, which may be in the past; nothing if the profile has no further one, or if it waits for a
  /// conversation to end.
  [[nodiscard]] std::optional<TimePoint> next_start() const;
  /// Handles the arrivals due by `now`: refuses those that exceed the limit, accepts the first that does not, and
  /// returns its instant.
  [[nodiscard]] std::optional<TimePoint> try_start(TimePoint now);
  /// A conversation ended. Requires: one to be alive.
  void release(TimePoint now);

  [[nodiscard]] std::uint64_t refused() const { return refused_; }
  /// Arrivals that waited for a place and were then accepted.
  [[nodiscard]] std::uint64_t held_back() const { return held_back_; }
  /// Arrivals due by `now` that wait for a place. Linear in their number, of which at most a million are counted.
  [[nodiscard]] std::uint64_t waiting(TimePoint now) const;
  /// Whether the profile has no further arrival.
  [[nodiscard]] bool is_over() const { return !next_; }

 private:
  [[nodiscard]] bool is_full() const { return alive_ >= spec_.max_conversations; }
  void draw_next();
  /// The offset of the next arrival in the profile's time.
  [[nodiscard]] double next_offset();

  spec::ArrivalSpec spec_;
  double mean_gap_s_;
  RandomStream random_;
  TimePoint start_;
  double offset_s_ = 0;  // next_ minus start_; a sum, exact to far below a nanosecond over any run
  std::uint64_t drawn_ = 0;
  ArrivalProfile profile_;
  std::optional<TimePoint> next_;
  std::uint32_t alive_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t held_back_ = 0;
  std::optional<TimePoint> last_full_;  // when a place was last given back while none was free
};

}  // namespace kvist::workload
