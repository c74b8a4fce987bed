#include "kvist/analysis/sample_summary.h"

#include <gtest/gtest.h>

#include "kvist/base/random.h"

namespace kvist::analysis::sample_summary_test {
namespace {

void expect_same_figures(std::vector<float> samples, const std::string& what) {
  const Distribution expected = describe({samples.begin(), samples.end()});
  const Distribution d = describe_in_place(samples);
  EXPECT_EQ(d.count, expected.count) << what;
  EXPECT_DOUBLE_EQ(d.p50, expected.p50) << what;
  EXPECT_DOUBLE_EQ(d.p90, expected.p90) << what;
  EXPECT_DOUBLE_EQ(d.p95, expected.p95) << what;
  EXPECT_DOUBLE_EQ(d.p99, expected.p99) << what;
  EXPECT_DOUBLE_EQ(d.min, expected.min) << what;
  EXPECT_DOUBLE_EQ(d.max, expected.max) << what;
  EXPECT_NEAR(d.mean, expected.mean, 1e-9 * (1 + expected.mean)) << what;
  EXPECT_NEAR(d.standard_deviation, expected.standard_deviation, 1e-9 * (1 + expected.mean)) << what;
}

TEST(SampleSummary, SelectionEqualsSorting) {
  const std::uint64_t seed = 20260301;
  RandomStream random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> samples(static_cast<std::size_t>(random.uniform_int(0, round < 100 ? 12 : 3'000)));
    // Few distinct values as often as many: token gaps repeat.
    const std::int64_t distinct = round % 2 == 0 ? 5 : 1'000'000;
    for (float& x : samples) x = static_cast<float>(random.uniform_int(0, distinct)) / 7;
    expect_same_figures(std::move(samples), "seed " + std::to_string(seed) + ", round " + std::to_string(round));
  }
}

TEST(SampleSummary, WithoutSamplesThereAreNoFigures) {
  std::vector<float> none;
  EXPECT_EQ(describe_in_place(none).count, 0U);
}

}  // namespace
}  // namespace kvist::analysis::sample_summary_test
