// One axis of a plot: maps values to positions, and chooses the ticks.
#pragma once

#include <string>
#include <vector>

namespace kvist::render {

/// Maps [low, high] to [0, 1], linearly or by the logarithm. Built from the values that it must contain; its ends are
/// round numbers.
class AxisScale {
 public:
  enum class Kind {
    kLinearFromZero,
    kLinearWithZero,  ///< values may be below 0, which is always in sight
    kLogarithmic,     ///< values at or below 0 are ignored
    kLevels,          ///< exactly the values given, evenly spaced: concurrency levels are a choice, not a measurement
  };
  AxisScale(Kind kind, const std::vector<double>& values);

  [[nodiscard]] double position(double value) const;
  [[nodiscard]] const std::vector<double>& ticks() const { return ticks_; }
  /// Whether values lie on both sides of 0, or below it.
  [[nodiscard]] bool goes_below_zero() const { return kind_ == Kind::kLinearWithZero && low_ < 0; }

 private:
  void build_linear(const std::vector<double>& values);
  void build_with_zero(const std::vector<double>& values);
  void build_logarithmic(const std::vector<double>& values);

  Kind kind_;
  double low_ = 0;
  double high_ = 1;
  std::vector<double> ticks_;
};

/// A tick as text: "1,200", "0.5".
[[nodiscard]] std::string format_tick(double value);

}  // namespace kvist::render
