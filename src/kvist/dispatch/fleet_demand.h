// How many workers the present load needs, for an autoscaler.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "kvist/base/time.h"
#include "kvist/routing/load_tracker.h"
#include "kvist/routing/worker_view.h"
#include "kvist/spec/scaling_spec.h"

namespace kvist::dispatch {

/// Counts in workers what the load takes of each resource of a worker: its batch slots, its KV memory, and its time for
/// prefill. The scarcest decides, and each worker is to be in use up to `utilisation` of it:
///   wanted = the largest of the three / utilisation, rounded up, and at least 1.
/// All three are means over about the last `window`. Prefill is counted as it is routed: the time that an average
/// worker takes for the tokens that are not cached, per second. Slots and memory are what the requests in flight have
/// of them, at most what there is, because the length of a queue says how long an overload has lasted and not how large
/// it is. What an overload says of the load is how much more comes than is finished, refused requests included: while
/// slots or memory are nearly all in use or requests are refused, the demand is multiplied by that ratio.
/// A fleet whose demand is known from one size of it is sized right from any other, as long as it is not saturated; out
/// of saturation it takes a few steps, of 1 / utilisation at least. Threads: one.
class FleetDemand {
 public:
  /// From this share of the slots or of the memory on, they are what limits the fleet.
  static constexpr double kSaturated = 0.9;
  /// The ratio of what comes to what is finished is taken from at most so much, because in an outage nothing is
  /// finished.
  static constexpr double kMostPressure = 4;

  explicit FleetDemand(const spec::ScalingSpec& spec) : spec_(spec) {}

  void on_started() { ++came_; }
  /// A request was refused, because it would have waited too long or too many were under way.
  void on_refused() {
    ++came_;
    ++refused_;
  }
  /// It waits at the gateway, because no worker has room. When it is started or refused, that is not told again.
  void on_held() { on_refused(); }
  void on_ended() { ++ended_; }
  /// What the means are of. It includes the requests of other gateways, as far as these are known.
  struct State {
    std::span<const routing::WorkerView> fleet;
    const routing::LoadTracker& loads;
    std::uint32_t block_size = 0;  ///< of the loads, in tokens
    double routed_prefill_ms = 0;  ///< Forecaster::routed_prefill_ms()
    /// Forecaster::has_no_room(). Such a worker's memory is all in use, whatever its requests have of it: an engine may
    /// keep memory for what a request has not generated yet.
    std::function<bool(WorkerId)> has_no_room = [](WorkerId) { return false; };
  };
  /// Takes the state and what came since the last call into the means. To be called about every second, or more often.
  /// Forgets what came while no worker is available: what nobody can serve is unknown, not zero.
  void sample(const State& state, TimePoint now);

  /// The means, in workers.
  struct Demand {
    double slots = 0;
    double memory = 0;
    double prefill = 0;
    double pressure = 1;  ///< the ratio by which an overload multiplies them
  };
  [[nodiscard]] Demand demand() const;
  /// Nothing before `window` is over.
  [[nodiscard]] std::optional<std::uint32_t> wanted() const;

 private:
  // A mean that forgets, without the bias towards zero at its beginning.
  class Mean {
   public:
    void add(double value, double share) {
      sum_ += share * (value - sum_);
      weight_ += share * (1 - weight_);
    }
    [[nodiscard]] double value() const { return weight_ > 0 ? sum_ / weight_ : 0; }

   private:
    double sum_ = 0;
    double weight_ = 0;
  };

  spec::ScalingSpec spec_;
  std::optional<TimePoint> sampled_;
  Duration observed_{};
  double routed_prefill_ms_ = 0;  // at the last sample
  std::uint64_t came_ = 0;        // since the last sample, as are the next
  std::uint64_t refused_ = 0;
  std::uint64_t ended_ = 0;
  Mean slots_, memory_, prefill_, saturated_;  // saturated_: the larger share of slots or memory in use
  Mean coming_, refusing_, ending_;            // per second
};

}  // namespace kvist::dispatch
