#include "kvist/base/cluster_bootstrap.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/base/student_t.h"

namespace kvist {
namespace {

constexpr std::size_t kReplicates = 1'000;
constexpr std::size_t kFewestReplicates = 200;
constexpr std::size_t kMostWeights = 50'000'000;  // half a second of hashing

// The walk to a quantile begins so many standard errors below it. A replicate further off is walked from the beginning.
constexpr double kStartErrors = 5;

// P(Poisson(1) <= k) for k = 0, 1, ...; above the last one the weight is 8, which is never exceeded: once in 10^5
// draws.
constexpr std::array<double, 8> kPoissonBelow = {0.36787944117144233, 0.7357588823428847, 0.9196986029286058,
                                                 0.9810118431238462,  0.9963401531726563, 0.9994058151824183,
                                                 0.9999167588507119,  0.9999897508033253};

/// Samples by their rank, each counted as often as its cluster's weight says.
class RankWalk {
 public:
  RankWalk(std::span<const ClusteredSample> sorted, std::span<const std::uint8_t> weights, std::size_t start,
           std::uint64_t seen)
      : sorted_(sorted), weights_(weights), next_(start), seen_(seen) {}

  /// The sample of this rank, counted from 0. Requires: ranks ascend and exist.
  double at(std::uint64_t rank) {
    while (seen_ <= rank) {
      seen_ += weights_[sorted_[next_].cluster];
      ++next_;
    }
    return static_cast<double>(sorted_[next_ - 1].value);
  }

 private:
  std::span<const ClusteredSample> sorted_;
  std::span<const std::uint8_t> weights_;
  std::size_t next_;
  std::uint64_t seen_;
};

std::uint64_t weighted_sum(std::span<const std::uint8_t> weights, const std::vector<std::uint32_t>& counts) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) sum += std::uint64_t{weights[i]} * counts[i];
  return sum;
}

}  // namespace

std::uint32_t bootstrap_weight(std::uint64_t seed, std::size_t replicate, std::uint64_t name) {
  const double uniform = static_cast<double>(mix_seed({seed, replicate, name}) >> 11) * 0x1p-53;
  std::uint32_t weight = 0;
  while (weight < kPoissonBelow.size() && uniform >= kPoissonBelow[weight]) ++weight;
  return weight;
}

std::size_t bootstrap_replicates(std::size_t clusters) {
  if (clusters == 0) return kReplicates;
  return std::clamp(kMostWeights / clusters, kFewestReplicates, kReplicates);
}

ClusterBootstrap::ClusterBootstrap(std::uint64_t seed, std::vector<std::uint64_t> names)
    : seed_(seed), names_(std::move(names)) {}

std::size_t ClusterBootstrap::add_quantile(std::span<const ClusteredSample> sorted, double q) {
  KVIST_CHECK(q >= 0 && q <= 1, "quantile outside [0, 1]");
  Quantile made{.sorted = sorted,
                .q = q,
                .start = 0,
                .below = std::vector<std::uint32_t>(names_.size()),
                .samples = std::vector<std::uint32_t>(names_.size())};
  const double total = static_cast<double>(sorted.size());
  const std::size_t at_quantile = sorted.empty() ? 0 : static_cast<std::size_t>(q * (total - 1)) + 1;
  for (const ClusteredSample& sample : sorted) ++made.samples[sample.cluster];
  for (const ClusteredSample& sample : sorted.first(at_quantile)) ++made.below[sample.cluster];
  // The standard error of the share below the quantile, with clusters as units (Woodruff 1952).
  double squares = 0;
  std::size_t clusters = 0;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const double excess = made.below[i] - q * made.samples[i];
    squares += excess * excess;
    clusters += made.samples[i] > 0 ? 1 : 0;
  }
  // Samples of one cluster repeat each other: by so many times they scatter more than independent ones would.
  const double repeated = std::max(1.0, squares / std::max(1.0, total * q * (1 - q)));
  const double beyond = total * std::min(q, 1 - q) / repeated;
  made.freedom = std::max(1.0, std::min(static_cast<double>(clusters), beyond) - 1);
  made.known = clusters >= kLeastClusters && total * std::min(q, 1 - q) >= kLeastSamplesBeyond;
  const double start = static_cast<double>(at_quantile) - kStartErrors * std::sqrt(squares);
  made.start = start > 0 ? static_cast<std::size_t>(start) : 0;
  for (const ClusteredSample& sample : sorted.subspan(made.start, at_quantile - made.start)) {
    --made.below[sample.cluster];
  }
  quantiles_.push_back(std::move(made));
  return quantiles_.size() - 1;
}

double ClusterBootstrap::value_of(const Quantile& quantile, std::span<const std::uint8_t> weights) {
  const std::uint64_t total = weighted_sum(weights, quantile.samples);
  if (total == 0) return std::numeric_limits<double>::quiet_NaN();
  const double rank = quantile.q * static_cast<double>(total - 1);
  const auto lower = static_cast<std::uint64_t>(rank);
  const std::uint64_t before = weighted_sum(weights, quantile.below);
  RankWalk walk = before <= lower ? RankWalk(quantile.sorted, weights, quantile.start, before)
                                  : RankWalk(quantile.sorted, weights, 0, 0);
  const double low = walk.at(lower);
  const double high = walk.at(std::min(lower + 1, total - 1));
  return low + (rank - static_cast<double>(lower)) * (high - low);
}

std::vector<Replicates> ClusterBootstrap::run() const {
  std::vector<Replicates> found(quantiles_.size());
  if (std::ranges::none_of(quantiles_, &Quantile::known)) return found;
  for (std::size_t i = 0; i < quantiles_.size(); ++i) found[i].freedom = quantiles_[i].freedom;
  std::vector<std::uint8_t> weights(names_.size());
  const std::size_t replicates = bootstrap_replicates(names_.size());
  for (std::size_t replicate = 0; replicate < replicates; ++replicate) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      weights[i] = static_cast<std::uint8_t>(bootstrap_weight(seed_, replicate, names_[i]));
    }
    for (std::size_t i = 0; i < quantiles_.size(); ++i) {
      if (quantiles_[i].known) found[i].values.push_back(static_cast<float>(value_of(quantiles_[i], weights)));
    }
  }
  return found;
}

std::optional<Interval> interval_of(Replicates replicates) {
  std::vector<float>& values = replicates.values;
  std::erase_if(values, [](float value) { return !std::isfinite(value); });
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const auto freedom = static_cast<std::size_t>(std::max(1.0, replicates.freedom));
  const double errors = student_t_quantile(0.5 + kBootstrapConfidence / 2, freedom);
  const double tail = std::erfc(errors / std::numbers::sqrt2) / 2;
  const auto at = [&](double share) {
    return static_cast<double>(
        values[static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)))]);
  };
  return Interval{.low = at(tail), .high = at(1 - tail)};
}

}  // namespace kvist
