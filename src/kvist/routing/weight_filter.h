// Learns the weights of a linear equation from observations, one by one.
#pragma once

#include <array>
#include <cstddef>

namespace kvist::routing {

/// A Kalman filter whose state, five weights above 0, drifts slowly: recursive least squares that forgets. Threads:
/// one.
class WeightFilter {
 public:
  static constexpr std::size_t kWeights = 5;
  using Row = std::array<double, kWeights>;

  /// The prior may be wrong by an order of magnitude.
  explicit WeightFilter(const Row& prior);

  /// Takes the sum of the weights times `x`, as it was observed with an error of about `deviation`.
  void learn(const Row& x, double observed, double deviation);
  /// Time has passed, so that the weights are a little less certain.
  void drift();
  /// The true value of a weight may have changed, because something outside this filter did: its variance grows by
  /// `factor`, at most to the prior's.
  void doubt(std::size_t weight, double factor);

  [[nodiscard]] double weight(std::size_t i) const { return weights_[i]; }
  /// Of the sum over `x` and that over `y`; with the same row twice the variance.
  [[nodiscard]] double covariance(const Row& x, const Row& y) const;
  [[nodiscard]] double variance(std::size_t weight) const { return covariance_[weight][weight]; }

 private:
  using Fixed = std::array<bool, kWeights>;
  [[nodiscard]] double prior_variance(std::size_t weight) const;
  [[nodiscard]] bool learn(const Row& x, double observed, double noise, Fixed& fixed);

  Row weights_;
  Row prior_;
  std::array<Row, kWeights> covariance_ = {};
};

}  // namespace kvist::routing
