#include "kvist/routing/weight_filter.h"

#include <algorithm>

namespace kvist::routing {
namespace {

/// The weights stay above this share of their prior, so that noise never turns a sign.
constexpr double kLeastWeight = 0.02;
constexpr double kMostWeight = 50;
/// Standard deviation of a weight's drift from one observation to the next, as a share of the weight.
constexpr double kDrift = 0.003;
/// Standard deviation of the prior, as a multiple of its values, which may be wrong by an order of magnitude.
constexpr double kPriorDeviation = 2;

}  // namespace

WeightFilter::WeightFilter(const Row& prior) : weights_(prior), prior_(prior) {
  for (std::size_t i = 0; i < kWeights; ++i) covariance_[i][i] = prior_variance(i);
}

double WeightFilter::prior_variance(std::size_t weight) const {
  const double deviation = kPriorDeviation * prior_[weight];
  return deviation * deviation;
}

double WeightFilter::covariance(const Row& x, const Row& y) const {
  double sum = 0;
  for (std::size_t i = 0; i < kWeights; ++i)
    for (std::size_t j = 0; j < kWeights; ++j) sum += x[i] * covariance_[i][j] * y[j];
  return sum;
}

// The true weights drift slowly, so each weight's uncertainty grows with every observation, up to that of the prior.
// The covariances do not grow: otherwise a weight without news, such as prefill while every history is cached, would
// drift on noise.
void WeightFilter::drift() {
  for (std::size_t i = 0; i < kWeights; ++i) {
    const double drift = kDrift * weights_[i];
    covariance_[i][i] = std::min(covariance_[i][i] + drift * drift, prior_variance(i));
  }
}

void WeightFilter::doubt(std::size_t weight, double factor) {
  covariance_[weight][weight] = std::min(covariance_[weight][weight] * factor, prior_variance(weight));
}

void WeightFilter::learn(const Row& x, double observed, double deviation) {
  const double noise = std::max(0.5, deviation);
  Fixed fixed = {};
  while (!learn(x, observed, noise * noise, fixed)) {
  }
}

// Recursive least squares: gain = P x / (noise + x' P x). A weight that would leave its range is fixed at the end of
// the range. Then the other weights have to explain the observation alone, and their covariance with the fixed one is
// dropped. Otherwise they would compensate for a change that the fixed weight never makes, and get further from the
// truth each time. Returns false if a weight was fixed.
bool WeightFilter::learn(const Row& x, double observed, double noise, Fixed& fixed) {
  Row px = {};
  double xpx = 0;
  double error = observed;
  for (std::size_t i = 0; i < kWeights; ++i) {
    error -= weights_[i] * x[i];
    if (fixed[i]) continue;
    for (std::size_t j = 0; j < kWeights; ++j) px[i] += fixed[j] ? 0 : covariance_[i][j] * x[j];
    xpx += x[i] * px[i];
  }
  const double scale = 1 / (noise + xpx);
  for (std::size_t i = 0; i < kWeights; ++i) {
    const double wanted = weights_[i] + px[i] * scale * error;
    const double allowed = std::clamp(wanted, prior_[i] * kLeastWeight, prior_[i] * kMostWeight);
    if (allowed == wanted) continue;
    weights_[i] = allowed;
    fixed[i] = true;
    for (std::size_t j = 0; j < kWeights; ++j) {
      if (j != i) covariance_[i][j] = covariance_[j][i] = 0;
    }
    return false;
  }
  for (std::size_t i = 0; i < kWeights; ++i) {
    weights_[i] += px[i] * scale * error;
    for (std::size_t j = 0; j < kWeights; ++j) covariance_[i][j] -= px[i] * px[j] * scale;
  }
  return true;
}

}  // namespace kvist::routing
