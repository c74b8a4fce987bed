// By how much a processor's pauses have moved percentiles that were measured on it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvist::analysis {

/// How long after a random instant a processor runs on: the law of the delay that pauses add to a sample.
class PauseLaw {
 public:
  struct Bin {
    double ms = 0;  ///< more than 0
    double share = 0;
  };

  /// No pauses.
  PauseLaw() = default;
  /// `bins` have the delays that are pauses, with their shares of all instants, ascending; the rest of the instants had
  /// none. They were seen in `pauses` separate pauses: shares are taken to be higher by two standard deviations of that
  /// number, because few pauses say little of how many there are.
  PauseLaw(std::vector<Bin> bins, std::uint64_t pauses);

  [[nodiscard]] std::span<const Bin> bins() const { return bins_; }
  /// Of the instants, those within a pause.
  [[nodiscard]] double share() const { return share_; }
  [[nodiscard]] bool none() const { return bins_.empty(); }

 private:
  std::vector<Bin> bins_;
  double share_ = 0;
};

/// By how much each quantile of `quantiles` (0 to 1) is above that of the samples without what pauses added to them:
/// each sample is a true value and an independent delay by `law`. Never negative; all 0 if there are no pauses or no
/// samples.
///
/// The distribution functions F (measured) and G (true) obey F(x) = sum of share_j G(x - ms_j), delays of 0 included.
/// As that of 0 has most of the weight, G follows from smaller x to larger ones, without any assumption on its form. If
/// pauses take so much of the time that noise would grow (kMostPauses), a coarser bound is taken: G(x) is at most
/// F(x + d) / P(delay <= d) for every d. Time is linear in the samples, and in the grid (kPauseGrid) times the bins.
[[nodiscard]] std::vector<double> pause_shifts(std::span<const float> samples, const PauseLaw& law,
                                               std::span<const double> quantiles);

/// Share of the time above which pauses are not taken out exactly.
inline constexpr double kMostPauses = 0.35;
/// Steps of the distribution functions.
inline constexpr std::size_t kPauseGrid = 50'000;

}  // namespace kvist::analysis
