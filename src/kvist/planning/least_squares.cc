#include "kvist/planning/least_squares.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/planning/small_matrix.h"

namespace kvist::planning {
namespace {

using Vector = std::vector<double>;

/// The search; all variables are scaled so that a difference of 0.05 is 5 % of the starting value.
class Search {
 public:
  Search(const std::vector<Variable>& variables, const BatchResiduals& residuals, const LeastSquaresOptions& options)
      : variables_(variables), ask_(residuals), options_(options) {
    for (const Variable& v : variables) {
      at_.push_back(v.start);
      const double size = std::abs(v.start) > 0 ? std::abs(v.start) : 0.1 * (v.high - v.low);
      scale_.push_back(size > 0 ? size : 1);
    }
    reach_.assign(variables.size(), 1);
  }

  Result<LeastSquaresResult> run() {
    KVIST_TRY(auto first, ask({at_, nudged()}));
    residuals_ = std::move(first.front());
    KVIST_CHECK(residuals_.size() >= variables_.size(), "fewer residuals than variables");
    result_.start_objective = mean_square(residuals_);
    for (std::size_t k = 0; k < residuals_.size(); ++k) first[1][k] -= residuals_[k];
    result_.noise = std::sqrt(mean_square(first[1]));
    double step = options_.first_step;
    for (; result_.rounds < options_.max_rounds && step >= options_.last_step; ++result_.rounds) {
      const double before = mean_square(residuals_);
      KVIST_TRY_VOID(differentiate_clearly(step));
      KVIST_TRY_VOID(descend());
      if (options_.progress) options_.progress(result_.rounds + 1, mean_square(residuals_));
      // Nothing was gained, so the differences were too wide here.
      if (mean_square(residuals_) > (1 - options_.least_gain) * before) step /= 2;
    }
    KVIST_TRY_VOID(differentiate_clearly(options_.first_step));
    conclude();
    return std::move(result_);
  }

 private:
  /// The point with a change of every variable that is too small to affect any residual except for noise.
  [[nodiscard]] Vector nudged() const {
    constexpr double kNudge = 1e-5;
    Vector point = at_;
    for (std::size_t i = 0; i < point.size(); ++i) {
      const double change = kNudge * scale_[i];
      point[i] = at_[i] + change <= variables_[i].high ? at_[i] + change : std::max(variables_[i].low, at_[i] - change);
    }
    return point;
  }

  Result<Matrix> ask(const std::vector<Vector>& points) {
    result_.points += points.size();
    return ask_(points);
  }

  /// jacobian_[i], for each variable of `which`: change of the residuals per scaled unit, by a one-sided difference
  /// away from the nearer bound.
  Result<void> differentiate(double step, const std::vector<std::size_t>& which) {
    std::vector<Vector> points;
    points.reserve(which.size());
    for (const std::size_t i : which) {
      const Variable& v = variables_[i];
      Vector point = at_;
      const double wanted = step * reach_[i] * scale_[i];
      const bool upwards = v.high - at_[i] >= at_[i] - v.low || v.high - at_[i] >= wanted;
      point[i] = std::clamp(at_[i] + (upwards ? wanted : -wanted), v.low, v.high);
      points.push_back(std::move(point));
    }
    KVIST_TRY(const Matrix moved, ask(points));
    for (std::size_t n = 0; n < which.size(); ++n) {
      const std::size_t i = which[n];
      const double distance = (points[n][i] - at_[i]) / scale_[i];
      jacobian_[i].assign(residuals_.size(), 0);
      if (distance == 0) continue;  // both bounds are equal
      for (std::size_t k = 0; k < residuals_.size(); ++k) {
        jacobian_[i][k] = (moved[n][k] - residuals_[k]) / distance;
      }
      adapt_reach(i, std::sqrt(mean_square(jacobian_[i])) * std::abs(distance));
    }
    return {};
  }

  /// Widens the next differences of a variable whose change is below the noise.
  void adapt_reach(std::size_t i, double change) {
    constexpr double kFarthest = 8;
    constexpr double kClear = 3;
    if (change >= kClear * result_.noise || reach_[i] >= kFarthest) return;
    const double wanted = change > 0 ? kClear * result_.noise / change : kFarthest;
    reach_[i] = std::min(kFarthest, reach_[i] * std::clamp(wanted, 2.0, 4.0));
  }

  /// Differentiates by all variables, and again with wider differences by those whose change is below the noise.
  Result<void> differentiate_clearly(double step) {
    jacobian_.resize(at_.size());
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < at_.size(); ++i) which.push_back(i);
    for (int tries = 0; tries < 3 && !which.empty(); ++tries) {
      const Vector reach = reach_;
      KVIST_TRY_VOID(differentiate(step, which));
      std::erase_if(which, [&](std::size_t i) { return reach[i] == reach_[i]; });
    }
    return {};
  }

  [[nodiscard]] double product(std::size_t i, const Vector& other) const {
    double sum = 0;
    for (std::size_t k = 0; k < other.size(); ++k) sum += jacobian_[i][k] * other[k];
    return sum;
  }

  /// Variables that may move: those with an influence, not pressed against a bound.
  [[nodiscard]] std::vector<std::size_t> movable() const {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < at_.size(); ++i) {
      if (product(i, jacobian_[i]) <= 0) continue;
      const double gradient = product(i, residuals_);
      if (at_[i] <= variables_[i].low && gradient > 0) continue;
      if (at_[i] >= variables_[i].high && gradient < 0) continue;
      indices.push_back(i);
    }
    return indices;
  }

  [[nodiscard]] Matrix normal_matrix(const std::vector<std::size_t>& of, double damping) const {
    Matrix normal(of.size(), Vector(of.size(), 0));
    for (std::size_t i = 0; i < of.size(); ++i) {
      for (std::size_t j = 0; j < of.size(); ++j) normal[i][j] = product(of[i], jacobian_[of[j]]);
      normal[i][i] *= 1 + damping;
    }
    return normal;
  }

  [[nodiscard]] std::optional<Vector> damped_step(const std::vector<std::size_t>& moving, double damping) const {
    const auto inverse = inverse_of(normal_matrix(moving, damping));
    if (!inverse) return std::nullopt;
    Vector point = at_;
    for (std::size_t i = 0; i < moving.size(); ++i) {
      double change = 0;
      for (std::size_t j = 0; j < moving.size(); ++j) change -= (*inverse)[i][j] * product(moving[j], residuals_);
      const std::size_t v = moving[i];
      point[v] = std::clamp(at_[v] + change * scale_[v], variables_[v].low, variables_[v].high);
    }
    return point;
  }

  /// Whether the distance of a point is below the noise.
  [[nodiscard]] bool is_at(const Vector& point) const {
    for (std::size_t i = 0; i < point.size(); ++i) {
      if (std::abs(point[i] - at_[i]) > options_.last_step / 2 * scale_[i]) return false;
    }
    return true;
  }

  /// Tries four dampings and moves to the best point if it is better than the present one.
  Result<void> descend() {
    const std::vector<std::size_t> moving = movable();
    if (moving.empty()) return {};
    constexpr std::array kFactors = {0.1, 1.0, 10.0, 100.0};
    std::vector<Vector> points;
    std::vector<double> dampings;
    for (const double factor : kFactors) {
      auto point = damped_step(moving, damping_ * factor);
      if (!point || is_at(*point)) continue;
      points.push_back(std::move(*point));
      dampings.push_back(damping_ * factor);
    }
    if (points.empty()) {
      damping_ = std::max(1e-9, damping_ / 100);
      return {};
    }
    KVIST_TRY(Matrix found, ask(points));
    std::size_t best = 0;
    for (std::size_t i = 1; i < found.size(); ++i) {
      if (mean_square(found[i]) < mean_square(found[best])) best = i;
    }
    if (mean_square(found[best]) >= mean_square(residuals_)) {
      damping_ = std::min(damping_ * 100, 1e6);
      return {};
    }
    at_ = points[best];
    residuals_ = std::move(found[best]);
    damping_ = std::max(dampings[best], 1e-9);
    return {};
  }

  void conclude() {
    const std::size_t n = at_.size();
    result_.values = at_;
    result_.objective = mean_square(residuals_);
    result_.standard_errors.assign(n, std::numeric_limits<double>::infinity());
    result_.correlations.assign(n, Vector(n, 0));
    std::vector<std::size_t> influential;
    for (std::size_t i = 0; i < n; ++i) {
      result_.correlations[i][i] = 1;
      if (product(i, jacobian_[i]) > 0) influential.push_back(i);
    }
    const auto inverse = inverse_of(normal_matrix(influential, 0));
    if (!inverse) return;
    const double freedom = static_cast<double>(std::max<std::size_t>(1, residuals_.size() - influential.size()));
    const double variance = mean_square(residuals_) * static_cast<double>(residuals_.size()) / freedom;
    for (std::size_t i = 0; i < influential.size(); ++i) {
      const std::size_t v = influential[i];
      result_.standard_errors[v] = std::sqrt(variance * (*inverse)[i][i]) * scale_[v];
      for (std::size_t j = 0; j < influential.size(); ++j) {
        result_.correlations[v][influential[j]] = (*inverse)[i][j] / std::sqrt((*inverse)[i][i] * (*inverse)[j][j]);
      }
    }
  }

  const std::vector<Variable>& variables_;
  const BatchResiduals& ask_;
  const LeastSquaresOptions& options_;
  Vector at_;
  Vector scale_;
  Vector reach_;  // multiples of the step
  Vector residuals_;
  Matrix jacobian_;
  double damping_ = 0.01;
  LeastSquaresResult result_;
};

}  // namespace

double mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

Result<LeastSquaresResult> least_squares(const std::vector<Variable>& variables, const BatchResiduals& residuals,
                                         const LeastSquaresOptions& options) {
  KVIST_CHECK(!variables.empty(), "nothing to fit");
  return Search(variables, residuals, options).run();
}

}  // namespace kvist::planning
