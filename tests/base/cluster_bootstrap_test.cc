#include "kvist/base/cluster_bootstrap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kvist/base/random.h"
#include "kvist/base/statistics.h"

namespace kvist::cluster_bootstrap_test {
namespace {

std::vector<std::uint64_t> names(std::size_t n) {
  std::vector<std::uint64_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<ClusteredSample> sorted(std::vector<ClusteredSample> samples) {
  std::ranges::sort(samples, {}, &ClusteredSample::value);
  return samples;
}

/// `clusters` of `each` samples: an offset common to the cluster, with noise of its own for every sample.
std::vector<ClusteredSample> drawn(std::uint64_t seed, std::size_t clusters, std::size_t each, double common) {
  RandomStream random(seed);
  std::vector<ClusteredSample> samples;
  for (std::uint32_t c = 0; c < clusters; ++c) {
    const double offset = random.normal(0, common);
    for (std::size_t i = 0; i < each; ++i) {
      samples.push_back({static_cast<float>(100 + offset + random.normal(0, 1)), c});
    }
  }
  return sorted(std::move(samples));
}

/// A replicate computed from copies of every sample.
double slow_replicate(const std::vector<ClusteredSample>& samples, std::uint64_t seed, std::size_t replicate,
                      double q) {
  std::vector<double> copies;
  for (const ClusteredSample& sample : samples) {
    const std::uint32_t weight = bootstrap_weight(seed, replicate, sample.cluster);
    copies.insert(copies.end(), weight, static_cast<double>(sample.value));
  }
  return quantile_of_sorted(copies, q);
}

TEST(ClusterBootstrap, ReplicatesAreQuantilesOfResampledClusters) {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    const std::vector<ClusteredSample> samples = drawn(seed, 15 + 10 * seed, 20, seed % 2 == 0 ? 0 : 5);
    ClusterBootstrap bootstrap(seed, names(15 + 10 * seed));
    bootstrap.add_quantile(samples, 0.5);
    bootstrap.add_quantile(samples, 0.95);
    const std::vector<Replicates> found = bootstrap.run();
    ASSERT_EQ(found[0].values.size(), 1'000U) << "seed " << seed;
    for (std::size_t i = 0; i < 1'000; ++i) {
      ASSERT_NEAR(found[0].values[i], slow_replicate(samples, seed, i, 0.5), 1e-4)
          << "seed " << seed << ", replicate " << i;
      ASSERT_NEAR(found[1].values[i], slow_replicate(samples, seed, i, 0.95), 1e-4)
          << "seed " << seed << ", replicate " << i;
    }
  }
}

TEST(ClusterBootstrap, IntervalsContainTheTruthAboutAsOftenAsTheySay) {
  int hits = 0;
  constexpr int kRuns = 200;
  for (int run = 0; run < kRuns; ++run) {
    const std::vector<ClusteredSample> samples = drawn(1'000 + static_cast<std::uint64_t>(run), 60, 8, 3);
    ClusterBootstrap bootstrap(7, names(60));
    bootstrap.add_quantile(samples, 0.5);
    const std::optional<Interval> interval = interval_of(bootstrap.run()[0]);
    ASSERT_TRUE(interval.has_value());
    hits += interval->low <= 100 && 100 <= interval->high ? 1 : 0;
  }
  // Binomial(200, 0.95): 181 is five standard deviations below its mean, and 100 % would mean that they are too wide.
  EXPECT_GE(hits, 175);
  EXPECT_LE(hits, 199);
}

TEST(ClusterBootstrap, IntervalsOfTailsContainTheTruthAsOftenAlthoughFewSamplesAreBeyond) {
  int hits = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    const std::vector<ClusteredSample> samples = drawn(9'000 + static_cast<std::uint64_t>(run), 100, 1, 0);
    ClusterBootstrap bootstrap(static_cast<std::uint64_t>(run), names(100));
    bootstrap.add_quantile(samples, 0.95);
    const Interval interval = interval_of(bootstrap.run()[0]).value();
    hits += interval.low <= 101.644854 && 101.644854 <= interval.high ? 1 : 0;
  }
  // 95 % are 380, with a standard deviation of 4.4. The middle 95 % of the replicates contain the truth in about 360.
  EXPECT_GE(hits, 372);
}

TEST(ClusterBootstrap, TheFreedomIsThatOfIndependentSamplesBeyond) {
  const auto freedom = [](std::size_t clusters, std::size_t each, double common, double q) {
    const std::vector<ClusteredSample> samples = drawn(3, clusters, each, common);
    ClusterBootstrap bootstrap(3, names(clusters));
    bootstrap.add_quantile(samples, q);
    return bootstrap.run()[0].freedom;
  };
  EXPECT_NEAR(freedom(1'000, 1, 0, 0.95), 49, 0.1);
  EXPECT_EQ(freedom(20, 500, 0, 0.5), 19) << "no more than there are clusters";
  EXPECT_LT(freedom(100, 20, 5, 0.95), 15) << "100 samples are beyond, of about five clusters";
}

TEST(ClusterBootstrap, DependenceWithinAClusterWidensTheInterval) {
  const auto width = [](double common) {
    const std::vector<ClusteredSample> samples = drawn(5, 50, 40, common);
    ClusterBootstrap bootstrap(5, names(50));
    bootstrap.add_quantile(samples, 0.5);
    const Interval interval = interval_of(bootstrap.run()[0]).value();
    return interval.high - interval.low;
  };
  EXPECT_GT(width(1), 3 * width(0));  // 40 samples of one cluster are little more than one
}

TEST(ClusterBootstrap, TooFewSamplesHaveNoInterval) {
  ClusterBootstrap few(1, names(9));
  const std::vector<ClusteredSample> nine = drawn(1, 9, 100, 0);
  few.add_quantile(nine, 0.5);
  EXPECT_FALSE(interval_of(few.run()[0]).has_value());

  ClusterBootstrap tail(1, names(20));
  const std::vector<ClusteredSample> twenty = drawn(1, 20, 4, 0);
  tail.add_quantile(twenty, 0.5);
  tail.add_quantile(twenty, 0.95);  // four samples beyond it
  tail.add_quantile({}, 0.5);
  const auto values = tail.run();
  EXPECT_TRUE(interval_of(values[0]).has_value());
  EXPECT_FALSE(interval_of(values[1]).has_value());
  EXPECT_FALSE(interval_of(values[2]).has_value());
}

TEST(ClusterBootstrap, WeightsArePoissonAndDependOnTheirKeyAlone) {
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double weight = bootstrap_weight(3, 4, static_cast<std::uint64_t>(i));
    sum += weight;
    squares += weight * weight;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 1, 0.02);
  EXPECT_NEAR(squares / kDraws - mean * mean, 1, 0.03);
  EXPECT_EQ(bootstrap_weight(3, 4, 17), bootstrap_weight(3, 4, 17));
  EXPECT_EQ(bootstrap_replicates(100), 1'000U);
  EXPECT_EQ(bootstrap_replicates(1'000'000), 200U);
}

}  // namespace
}  // namespace kvist::cluster_bootstrap_test
