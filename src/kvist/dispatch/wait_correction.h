// By how much forecast waits have turned out to be too short or too long.
#pragma once

#include <algorithm>

namespace kvist::dispatch {

/// Compares waits as they were with what was forecast, over the latest requests that had one, and corrects forecasts by
/// the ratio. A wait's first `short_ms` and the rest of it are corrected by a ratio each. In a standing queue, waits
/// are two to three times as long as forecast: the forecast knows neither that a step with other requests' prompts
/// takes longer, nor that requests are admitted just when it is too low. Both errors are some hundred milliseconds and
/// do not grow with the wait. The seconds of a burst are forecast well. Threads: one.
class WaitCorrection {
 public:
  static constexpr double kLeast = 0.5;
  static constexpr double kMost = 4;

  /// A request has waited `measured_ms`. `short_ms` is the bound of a short wait. Requires: it and `forecast_ms` are
  /// above 0.
  void observe(double forecast_ms, double measured_ms, double short_ms) {
    if (forecast_ms <= short_ms) return short_.observe(forecast_ms / short_ms, measured_ms / short_ms);
    const double beyond_ms = std::max(0.0, measured_ms - of_short() * short_ms);
    beyond_.observe(forecast_ms - short_ms, beyond_ms);
  }
  [[nodiscard]] double corrected_ms(double forecast_ms, double short_ms) const {
    return of_short() * std::min(forecast_ms, short_ms) + beyond() * std::max(0.0, forecast_ms - short_ms);
  }
  /// The factors for short waits and for the part of long ones beyond `short_ms`.
  [[nodiscard]] double of_short() const { return short_.ratio(kAssumedShort); }
  [[nodiscard]] double beyond() const { return beyond_.ratio(kAssumedMs); }

 private:
  /// About how many of the latest requests the sums count.
  static constexpr double kMeanOf = 64;
  /// The ratio of short waits begins as if so many of them, each of `short_ms`, had been exactly as forecast.
  static constexpr double kAssumedShort = 3;
  /// The ratio of the rest begins as if so much of it had been exactly as forecast.
  static constexpr double kAssumedMs = 1'000;

  class Ratio {
   public:
    void observe(double forecast, double measured) {
      constexpr double kKept = 1 - 1 / kMeanOf;
      forecast_ = forecast_ * kKept + forecast;
      measured_ = measured_ * kKept + measured;
    }
    [[nodiscard]] double ratio(double assumed) const {
      return std::clamp((measured_ + assumed) / (forecast_ + assumed), kLeast, kMost);
    }

   private:
    double forecast_ = 0;
    double measured_ = 0;
  };

  Ratio short_;  // in short_ms, which may change
  Ratio beyond_;
};

}  // namespace kvist::dispatch
