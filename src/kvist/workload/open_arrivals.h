// Starts of conversations in an open loop: arrivals at random gaps, whatever is in flight.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/base/time.h"
#include "kvist/spec/arrival_spec.h"
#include "kvist/workload/arrival_profile.h"
#include "kvist/workload/shard.h"

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
///  - The rate can be changed while it runs: the schedule is that of a profile with a step at that instant.
/// An arrival that finds `max_conversations` alive is refused and counted when try_start() handles it, which is late if
/// the client is late. Or it waits (spec::WhenFull) and is still due at its own instant. Threads: one. Memory:
/// constant, but for changes of the rate while arrivals wait.
class OpenArrivals {
 public:
  /// With a shard this object has only the shard's arrivals, at the instants that they have in the whole schedule, and
  /// the shard's share of the places. Requires: rate > 0, a variation from 1 to spec::kMaxArrivalVariation and
  /// max_conversations
  /// >= 1.
  OpenArrivals(const spec::ArrivalSpec& spec, double starts_per_second, std::uint64_t seed, TimePoint start,
               const Shard& shard = {});

  /// The next arrival, which may be in the past; nothing if the profile has no further one, or if it waits for a
  /// conversation to end.
  [[nodiscard]] std::optional<TimePoint> next_start() const;
  /// Handles the arrivals due by `now`: refuses those that exceed the limit, accepts the first that does not, and
  /// returns its instant.
  [[nodiscard]] std::optional<TimePoint> try_start(TimePoint now);
  /// The number in the whole schedule, from 0, of the arrival that try_start() accepted last.
  [[nodiscard]] std::uint64_t accepted() const { return accepted_; }
  /// Since when the arrival due at `due`, which try_start() has just returned, could start: later than that if it
  /// waited for a place.
  [[nodiscard]] TimePoint ready_since(TimePoint due) const {
    return last_full_ && due < *last_full_ ? *last_full_ : due;
  }
  /// A conversation ended. Requires: one to be alive.
  void release(TimePoint now);
  /// Sets the rate (of a profile's share 1) from `now` on. Arrivals due by `now` stay due. Requires: above 0.
  void set_rate(double starts_per_second, TimePoint now);
  /// Sets how many may be alive. Fewer take effect as conversations end. Requires: at least one.
  void set_limit(std::uint32_t max_conversations, TimePoint now);

  [[nodiscard]] double rate() const { return 1 / (mean_gap_s_ * rates_.back().stretch); }
  [[nodiscard]] std::uint32_t limit() const { return spec_.max_conversations; }
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
  /// The offset of the next arrival, in seconds at the first rate and a share of 1.
  [[nodiscard]] double next_offset();
  /// When an arrival with this offset is due; nothing if the profile never comes so far.
  [[nodiscard]] std::optional<TimePoint> instant_of(double offset) const;

  spec::ArrivalSpec spec_;
  double mean_gap_s_;
  RandomStream random_;
  TimePoint start_;
  double offset_s_ = 0;  // the sum of the gaps, exact to far below a nanosecond over any run
  double next_offset_s_ = 0;
  /// From `offset_s` on, which is `area_s` of the profile, gaps are `stretch` times as long as at the first rate.
  struct RateChange {
    double offset_s = 0;
    double area_s = 0;
    double stretch = 1;
  };
  std::vector<RateChange> rates_{RateChange{}};  // ascending; those before the next arrival are forgotten
  Shard shard_;
  std::uint64_t drawn_ = 0;     // of the whole schedule
  std::uint64_t number_ = 0;    // of next_
  std::uint64_t accepted_ = 0;  // the last that was
  ArrivalProfile profile_;
  std::optional<TimePoint> next_;
  std::uint32_t alive_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t held_back_ = 0;
  std::optional<TimePoint> last_full_;  // when a place was last given back while none was free
};

}  // namespace kvist::workload
