// Confidence intervals of percentiles whose samples come in clusters, by resampling whole clusters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvist {

/// Both ends belong to it.
struct Interval {
  double low = 0;
  double high = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// A sample and the index of the cluster it belongs to.
struct ClusteredSample {
  float value = 0;
  std::uint32_t cluster = 0;
};

/// A Poisson(1) variate from (seed, replicate, name of a cluster) alone. So a cluster has the same weight wherever it
/// occurs, and replicates of two arms that drove the same clusters are pairs.
[[nodiscard]] std::uint32_t bootstrap_weight(std::uint64_t seed, std::size_t replicate, std::uint64_t name);

/// The replicates of a bootstrap of so many clusters: 1,000, fewer where the clusters are very many.
[[nodiscard]] std::size_t bootstrap_replicates(std::size_t clusters);

/// Too few clusters, or too few samples beyond a percentile, say nothing about its spread: there is no interval then.
inline constexpr std::size_t kLeastClusters = 10;
inline constexpr double kLeastSamplesBeyond = 5;
inline constexpr double kBootstrapConfidence = 0.95;

/// The values of a quantile in the replicates of a bootstrap.
struct Replicates {
  std::vector<float> values = {};  ///< empty: nothing is known of its spread
  /// The degrees of freedom of an interval: so many independent samples are beyond the quantile, or there are so many
  /// clusters, whichever is less, less one.
  double freedom = 0;

  [[nodiscard]] bool empty() const { return values.empty(); }
  friend bool operator==(const Replicates&, const Replicates&) = default;
};

/// Resamples clusters (Poisson bootstrap: each replicate gives each cluster a weight) and computes quantiles of each
/// replicate, in the definition of quantile_of_sorted(). Samples of one cluster, such as the turns of a conversation,
/// depend on each other; resampling samples one by one would make intervals too narrow. The same input gives the same
/// replicates. Time: per replicate the clusters, and the few samples around each quantile. Threads: one.
class ClusterBootstrap {
 public:
  /// `names`: one per cluster, for bootstrap_weight().
  ClusterBootstrap(std::uint64_t seed, std::vector<std::uint64_t> names);

  /// Adds a quantile of `sorted` (by value, ascending), which has to outlive run(). Returns its index.
  std::size_t add_quantile(std::span<const ClusteredSample> sorted, double q);

  /// Per quantile its value in each replicate; empty if it has no interval (kLeastClusters, kLeastSamplesBeyond).
  [[nodiscard]] std::vector<Replicates> run() const;

 private:
  struct Quantile {
    std::span<const ClusteredSample> sorted;
    double q = 0;
    std::size_t start = 0;               // of the walk: below the quantile of nearly every replicate
    std::vector<std::uint32_t> below;    // per cluster, samples before `start`
    std::vector<std::uint32_t> samples;  // per cluster
    double freedom = 0;                  // as of its replicates
    bool known = false;
  };

  [[nodiscard]] static double value_of(const Quantile& quantile, std::span<const std::uint8_t> weights);

  std::uint64_t seed_;
  std::vector<std::uint64_t> names_;
  std::vector<Quantile> quantiles_;
};

/// The 95 % interval: the middle of the replicates, as much of it as Student's t with their freedom reaches to in
/// standard errors of a normal distribution (the expanded percentile interval of Hesterberg 2015). The middle 95 % of
/// them would be too narrow where few samples are beyond a quantile, because resampling never goes beyond those.
/// Nothing if there are no replicates.
[[nodiscard]] std::optional<Interval> interval_of(Replicates replicates);

}  // namespace kvist
