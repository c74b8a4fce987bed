#include "kvist/analysis/pause_shift.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace kvist::analysis {
namespace {

/// No finer than what anyone concludes from.
constexpr double kLeastStepMs = 0.02;

/// The sample at which the share q of all is reached.
float order_statistic(std::span<const float> samples, double q) {
  std::vector<float> some(samples.begin(), samples.end());
  const double rank = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(some.size()));
  const auto nth = some.begin() + static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
  std::ranges::nth_element(some, nth);
  return *nth;
}

/// The distribution function of samples in equal steps up to the quantile `up_to`: values_[i] is the share of samples
/// up to the least one and i steps.
class SteppedDistribution {
 public:
  SteppedDistribution(std::span<const float> samples, double up_to) {
    const auto low = static_cast<double>(*std::ranges::min_element(samples));
    const double range = static_cast<double>(order_statistic(samples, up_to)) - low;
    step_ = std::max(kLeastStepMs, range / static_cast<double>(kPauseGrid));
    values_.assign(static_cast<std::size_t>(std::ceil(range / step_)) + 1, 0);
    for (const float sample : samples) {
      const double steps = std::ceil((static_cast<double>(sample) - low) / step_);
      if (steps < static_cast<double>(values_.size())) values_[static_cast<std::size_t>(steps)] += 1;
    }
    double sum = 0;
    for (double& value : values_) {
      sum += value;
      value = sum / static_cast<double>(samples.size());
    }
  }

  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] double step() const { return step_; }
  [[nodiscard]] double at(std::size_t i) const { return values_[i]; }
  void set(std::size_t i, double value) { values_[i] = value; }
  /// The first step from which on the share is q or more. Of few samples less than expected may have met a pause, so
  /// that a computed distribution goes above what it has later, where it is known better: between two humps.
  [[nodiscard]] std::size_t first_at(double q) const {
    std::size_t at = values_.size() - 1;
    while (at > 0 && values_[at - 1] >= q) --at;
    return at;
  }

 private:
  double step_ = 0;
  std::vector<double> values_;
};

struct SteppedBin {
  std::size_t steps = 0;
  double share = 0;
};

/// Delays in steps, at least one; bins of equal length become one.
std::vector<SteppedBin> in_steps(const PauseLaw& law, double step) {
  std::vector<SteppedBin> stepped;
  for (const PauseLaw::Bin& bin : law.bins()) {
    const auto steps = static_cast<std::size_t>(std::max(1.0, std::round(bin.ms / step)));
    if (!stepped.empty() && stepped.back().steps == steps) {
      stepped.back().share += bin.share;
    } else {
      stepped.push_back({.steps = steps, .share = bin.share});
    }
  }
  return stepped;
}

/// The distribution without delays.
SteppedDistribution without(const SteppedDistribution& measured, const PauseLaw& law) {
  const std::vector<SteppedBin> bins = in_steps(law, measured.step());
  SteppedDistribution pure = measured;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    double delayed = 0;
    for (const SteppedBin& bin : bins) {
      if (bin.steps > i) break;
      delayed += bin.share * pure.at(i - bin.steps);
    }
    pure.set(i, std::clamp((measured.at(i) - delayed) / (1 - law.share()), measured.at(i), 1.0));
  }
  return pure;
}

std::vector<double> exact_shifts(const SteppedDistribution& measured, const PauseLaw& law,
                                 std::span<const double> quantiles) {
  const SteppedDistribution pure = without(measured, law);
  std::vector<double> shifts;
  for (const double q : quantiles) {
    shifts.push_back(static_cast<double>(measured.first_at(q) - pure.first_at(q)) * measured.step());
  }
  return shifts;
}

std::vector<double> coarse_shifts(const SteppedDistribution& measured, const PauseLaw& law,
                                  std::span<const double> quantiles) {
  std::vector<double> shifts;
  for (const double q : quantiles) {
    const double with = static_cast<double>(measured.first_at(q)) * measured.step();
    double within = std::max(0.0, 1 - law.share());  // of the delays, those of at most d
    double pure = static_cast<double>(measured.first_at(q * within)) * measured.step();
    for (const PauseLaw::Bin& bin : law.bins()) {
      within = std::min(1.0, within + bin.share);
      pure = std::max(pure, static_cast<double>(measured.first_at(q * within)) * measured.step() - bin.ms);
    }
    shifts.push_back(std::max(0.0, with - pure));
  }
  return shifts;
}

}  // namespace

PauseLaw::PauseLaw(std::vector<Bin> bins, std::uint64_t pauses) : bins_(std::move(bins)) {
  const double margin = 1 + (pauses > 0 ? 2 / std::sqrt(static_cast<double>(pauses)) : 0);
  double seen = 0;
  for (const Bin& bin : bins_) seen += bin.share;
  // All instants are within pauses at most.
  const double factor = seen > 0 ? std::min(margin, 1 / seen) : 1;
  for (Bin& bin : bins_) {
    bin.share *= factor;
    share_ += bin.share;
  }
}

std::vector<double> pause_shifts(std::span<const float> samples, const PauseLaw& law,
                                 std::span<const double> quantiles) {
  if (law.none() || samples.empty() || quantiles.empty()) return std::vector<double>(quantiles.size(), 0);
  const SteppedDistribution measured(samples, std::ranges::max(quantiles));
  return law.share() > kMostPauses ? coarse_shifts(measured, law, quantiles) : exact_shifts(measured, law, quantiles);
}

}  // namespace kvist::analysis
