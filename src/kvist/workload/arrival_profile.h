// A rate that changes over time: how many arrivals it makes up to an instant, and when it has made so many.
#pragma once

#include <optional>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/spec/arrival_spec.h"

namespace kvist::workload {

/// Refuses a profile whose instants go back, whose shares are out of range, or which never has an arrival.
[[nodiscard]] Result<void> check_profile(const std::vector<spec::ArrivalPoint>& profile);

/// The profile with every share from `at` on multiplied by `factor`, as a change of the rate at that instant makes it.
[[nodiscard]] std::vector<spec::ArrivalPoint> scaled_from(std::vector<spec::ArrivalPoint> profile, Duration at,
                                                          double factor);

/// The shares of a profile, integrated. Before its first point the first share holds. Immutable.
class ArrivalProfile {
 public:
  /// Requires: check_profile() accepts it. An empty one is 1 all the time.
  explicit ArrivalProfile(const std::vector<spec::ArrivalPoint>& profile);

  /// The integral of the share from 0 to `seconds`, in seconds at the full rate.
  [[nodiscard]] double area_until(double seconds) const;
  /// The highest share from 0 to `seconds`, which may be infinite.
  [[nodiscard]] double peak_until(double seconds) const;
  /// The instant up to which the integral is `area`; nothing if it never becomes so large.
  [[nodiscard]] std::optional<double> instant_of(double area) const;

 private:
  struct Piece {
    double from = 0;  // seconds
    double area = 0;  // up to `from`
    double length = 0;
    double share = 1;      // at `from`
    double share_end = 1;  // at its end
  };
  std::vector<Piece> pieces_;  // the last one has no end
};

}  // namespace kvist::workload
