#include "kvist/render/axis_scale.h"

#include <algorithm>
#include <cmath>

#include "kvist/render/figures.h"

namespace kvist::render {
namespace {

constexpr int kTicksWanted = 5;
// Plots of tampered records must not loop for long: no axis has more ticks than this.
constexpr int kMaxTicks = 40;
/// Below it a value is drawn as 0.
constexpr double kSmallest = 1e-12;

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
double round_up(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

AxisScale::AxisScale(Kind kind, const std::vector<double>& values) : kind_(kind) {
  std::vector<double> usable;
  for (const double value : values) {
    if (std::isfinite(value) && (kind != Kind::kLogarithmic || value > 0)) usable.push_back(value);
  }
  std::sort(usable.begin(), usable.end());
  if (kind == Kind::kLevels) {
    usable.erase(std::unique(usable.begin(), usable.end()), usable.end());
    ticks_ = std::move(usable);
  } else if (kind == Kind::kLogarithmic) {
    build_logarithmic(usable);
  } else if (kind == Kind::kLinearWithZero) {
    build_with_zero(usable);
  } else {
    build_linear(usable);
  }
}

void AxisScale::build_linear(const std::vector<double>& values) {
  const double largest = values.empty() || values.back() < kSmallest ? 1 : values.back();
  const double step = round_up(largest / kTicksWanted);
  const int steps = std::clamp(static_cast<int>(std::ceil(largest / step - 1e-9)), 1, kMaxTicks);
  high_ = step * steps;
  for (int i = 0; i <= steps; ++i) ticks_.push_back(step * i);
}

void AxisScale::build_with_zero(const std::vector<double>& values) {
  const double smallest = values.empty() ? 0 : std::min(0.0, values.front());
  const double largest = values.empty() ? 0 : std::max(0.0, values.back());
  if (largest - smallest < kSmallest) return build_linear({});
  const double step = round_up((largest - smallest) / kTicksWanted);
  const int below = std::clamp(static_cast<int>(std::ceil(-smallest / step - 1e-9)), 0, kMaxTicks);
  const int above = std::clamp(static_cast<int>(std::ceil(largest / step - 1e-9)), 0, kMaxTicks);
  low_ = -step * below;
  high_ = step * above;
  for (int i = -below; i <= above; ++i) ticks_.push_back(step * i);
}

void AxisScale::build_logarithmic(const std::vector<double>& values) {
  const double smallest = values.empty() ? 1 : values.front();
  const double largest = values.empty() ? 10 : values.back();
  const int first = static_cast<int>(std::floor(std::log10(smallest)));
  const int last = static_cast<int>(std::floor(std::log10(largest)));
  std::vector<double> candidates;
  const bool wide = last - first > 3;
  for (int power = first; power <= last + 1; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (!wide || factor < 1.5) candidates.push_back(factor * std::pow(10.0, power));
    }
  }
  // The ticks that enclose the values, and those between.
  auto begin = std::upper_bound(candidates.begin(), candidates.end(), smallest);
  if (begin != candidates.begin()) --begin;
  auto end = std::lower_bound(begin, candidates.end(), largest);
  if (end != candidates.end()) ++end;
  if (end - begin < 2) ++end;  // the candidates go one power further than the values
  ticks_.assign(begin, end);
  low_ = std::log10(ticks_.front());
  high_ = std::log10(ticks_.back());
}

double AxisScale::position(double value) const {
  if (kind_ != Kind::kLevels) {
    const double at = kind_ == Kind::kLogarithmic ? std::log10(std::max(value, 1e-300)) : value;
    return high_ > low_ ? std::clamp((at - low_) / (high_ - low_), 0.0, 1.0) : 0.5;
  }
  // Leaves half a place free at both ends.
  const auto found = std::lower_bound(ticks_.begin(), ticks_.end(), value);
  return (static_cast<double>(found - ticks_.begin()) + 0.5) /
         static_cast<double>(std::max<std::size_t>(ticks_.size(), 1));
}

std::string format_tick(double value) {
  if (value >= 1'000 && value < 1e15) return format_count(static_cast<std::uint64_t>(std::llround(value)));
  return format_plain(value);
}

}  // namespace kvist::render
