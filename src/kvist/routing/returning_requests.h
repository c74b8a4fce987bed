// How much a worker is sought for its cache, and whom a long prompt there holds up.
#pragma once

#include <algorithm>
#include <cmath>

#include "kvist/base/time.h"

namespace kvist::routing {

/// The requests that came to one worker whose prefix some worker of the fleet had cached: how many per second, and how
/// much prefill the cache saves one of them. Both are exponential means. Such requests will go on coming to this
/// worker, and find it occupied while it computes a long prompt. Threads: one.
class ReturningRequests {
 public:
  /// Time constant of the means. It is the time after which a reused prefix is given up (ReusedPrefixes::kKept).
  static constexpr Duration kMemory = std::chrono::seconds(30);

  /// A request whose prefix was known went to the worker. `saved_ms` is the prefill of what was known.
  void add(double saved_ms, TimePoint now) {
    const double kept = kept_share(now);
    requests_ = requests_ * kept + 1;
    saved_ms_ = saved_ms_ * kept + saved_ms;
    last_ = now;
  }

  /// What is expected from a moment on.
  struct Rate {
    double per_ms = 0;    ///< how many come
    double saved_ms = 0;  ///< for each of them

    /// By how many milliseconds the requests that will come are delayed in all, if the worker is occupied for another
    /// `prefill_ms` after `queue_ms`. One that comes while the worker is occupied waits until it is free again, or goes
    /// elsewhere and loses what the cache would have saved it, whichever costs less. Ensures: never falls when an
    /// argument or the rate rises.
    [[nodiscard]] double held_up_ms(double queue_ms, double prefill_ms) const {
      return per_ms * (delays(queue_ms + prefill_ms) - delays(queue_ms));
    }

   private:
    // The integral of min(wait, saved) over the waits from 0 to `occupied_ms`.
    [[nodiscard]] double delays(double occupied_ms) const {
      const double waiting_ms = std::min(occupied_ms, saved_ms);
      return waiting_ms * waiting_ms / 2 + saved_ms * (occupied_ms - waiting_ms);
    }
  };
  [[nodiscard]] double held_up_ms(double queue_ms, double prefill_ms, TimePoint now) const {
    return rate(now).held_up_ms(queue_ms, prefill_ms);
  }
  [[nodiscard]] Rate rate(TimePoint now) const {
    if (requests_ <= 0) return {};
    return {.per_ms = requests_ * kept_share(now) / to_milliseconds(kMemory), .saved_ms = saved_ms_ / requests_};
  }

 private:
  [[nodiscard]] double kept_share(TimePoint now) const {
    return std::exp(-to_seconds(now - last_) / to_seconds(kMemory));
  }

  double requests_ = 0;  // with older ones forgotten, up to `last_`, as is the next
  double saved_ms_ = 0;  // their sum
  TimePoint last_{};
};

}  // namespace kvist::routing
