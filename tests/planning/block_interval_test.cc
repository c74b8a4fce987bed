#include "kvist/planning/block_interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kvist/planning/level_judge.h"
#include "planning/fake_evaluator.h"

namespace kvist::planning::block_interval_test {
namespace {

constexpr std::uint64_t kSeed = 20261129;

std::optional<BlockInterval> ttft_interval(const std::vector<std::vector<double>>& blocks, Headline figure) {
  const std::vector<BlockSamples> replays = {*replay_of(blocks).blocks};
  return block_interval(replays, figure, 0.95);
}

BlockSamples parts_of(Headline figure, const std::vector<BlockPart>& parts) {
  BlockSamples samples;
  samples.turns = 1'000;
  samples.of(figure) = parts;
  return samples;
}

TEST(BlockInterval, OfARateIsStudentsTOverTheBlocks) {
  const std::vector<double> rates = {9, 10, 11, 10, 12, 8, 10, 9, 11, 10};
  std::vector<BlockPart> parts;
  for (const double rate : rates) parts.push_back({.value = rate, .weight = 30});
  const std::vector<BlockSamples> replays = {parts_of(Headline::kThroughput, parts)};
  const auto interval = block_interval(replays, Headline::kThroughput, 0.95);
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->blocks, 10U);
  EXPECT_NEAR(interval->above, mean_interval(rates, 0.95).high - 10, 1e-9);
  EXPECT_DOUBLE_EQ(interval->below, interval->above);
}

TEST(BlockInterval, ABlockCountsByWhatItMakesUpOfTheLevel) {
  // A block of a single turn that failed hardly moves the share of two thousand.
  std::vector<BlockPart> parts(9, {.value = 0, .weight = 200});
  parts.push_back({.value = 100, .weight = 1});
  const std::vector<BlockSamples> replays = {parts_of(Headline::kErrorPct, parts)};
  EXPECT_LT(block_interval(replays, Headline::kErrorPct, 0.95)->above, 0.2);
}

TEST(BlockInterval, ABlockIsThatOfAllSeedsTogether) {
  const std::vector<BlockPart> ups = {{10, 1}, {20, 1}, {10, 1}, {20, 1}};
  const std::vector<BlockPart> downs = {{20, 1}, {10, 1}, {20, 1}, {10, 1}};
  const std::vector<BlockSamples> replays = {parts_of(Headline::kTurnRate, ups), parts_of(Headline::kTurnRate, downs)};
  EXPECT_NEAR(block_interval(replays, Headline::kTurnRate, 0.95)->above, 0, 1e-9);
}

TEST(BlockInterval, NeedsTurnsBeyondThePercentileAndBlocks) {
  const std::vector<std::vector<double>> hundred(10, std::vector<double>(10, 500));
  EXPECT_TRUE(ttft_interval(hundred, Headline::kTtftP95));
  EXPECT_FALSE(ttft_interval(hundred, Headline::kTtftP99));
  EXPECT_TRUE(ttft_interval(std::vector(10, std::vector<double>(50, 500)), Headline::kTtftP99));
  EXPECT_FALSE(ttft_interval(std::vector(9, std::vector<double>(11, 500)), Headline::kTtftP95)) << "99 turns";
  EXPECT_FALSE(ttft_interval(std::vector(2, std::vector<double>(100, 500)), Headline::kTtftP95)) << "two blocks";
  EXPECT_TRUE(ttft_interval(std::vector(3, std::vector<double>(100, 500)), Headline::kTtftP95));
  EXPECT_TRUE(ttft_interval(std::vector(10, std::vector<double>(6, 500)), Headline::kErrorPct));
  EXPECT_FALSE(ttft_interval(std::vector(10, std::vector<double>(5, 500)), Headline::kErrorPct)) << "50 turns";
  EXPECT_FALSE(ttft_interval(hundred, Headline::kItlP95)) << "gaps were not kept";
}

TEST(BlockInterval, OfNoErrorsIsWhatSoManyTurnsLeave) {
  // Of 3 % that fail, 60 turns show none in 16 of 100 windows.
  const auto sixty = ttft_interval(std::vector(10, std::vector<double>(6, 500)), Headline::kErrorPct);
  ASSERT_TRUE(sixty);
  EXPECT_NEAR(sixty->above, 100 * (1 - std::pow(0.05, 1.0 / 60)), 1e-9);
  const auto many = ttft_interval(std::vector(10, std::vector<double>(600, 500)), Headline::kErrorPct);
  ASSERT_TRUE(many);
  EXPECT_LT(many->above, 0.06);
}

TEST(BlockInterval, IsNeverBeyondTheLargestValueSeen) {
  // All slow turns in one block: how many there are in other traffic is unknown, but not how slow they are.
  std::vector<std::vector<double>> blocks(10, std::vector<double>(50, 100));
  for (std::size_t i = 0; i < 26; ++i) blocks[4][i] = 900;
  const auto interval = ttft_interval(blocks, Headline::kTtftP95);
  ASSERT_TRUE(interval);
  EXPECT_DOUBLE_EQ(interval->below, 900 - 100) << "it may be that of the other blocks";
  EXPECT_DOUBLE_EQ(interval->above, 0);
}

/// How often of `tries` a bound of a percentile is on the right side of the truth.
struct Coverage {
  double low = 0;
  double high = 0;
};
template <typename Window>
Coverage coverage_of(Headline figure, double truth, int tries, const Window& window) {
  Coverage coverage;
  for (int i = 0; i < tries; ++i) {
    const LevelSample sample = replay_of(window());
    const std::vector<BlockSamples> replays = {*sample.blocks};
    std::vector<double> values;
    for (const BlockSample& time : sample.blocks->of(Timing::kTtft)) values.push_back(time.value);
    const double found = quantile_of_sorted(values, timing_quantile(figure)->q);
    const BlockInterval interval = *block_interval(replays, figure, 0.95);
    coverage.low += found - interval.below <= truth ? 1.0 / tries : 0;
    coverage.high += found + interval.above >= truth ? 1.0 / tries : 0;
  }
  return coverage;
}

TEST(BlockInterval, CoversTheTruthAboutAsOftenAsItSays) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  RandomStream random(kSeed);
  const auto independent = [&] {
    std::vector<std::vector<double>> blocks(10, std::vector<double>(60));
    for (std::vector<double>& block : blocks) {
      for (double& value : block) value = random.exponential(100);
    }
    return blocks;
  };
  const auto uneven = [&] {  // each block has a speed of its own
    std::vector<std::vector<double>> blocks(10, std::vector<double>(60));
    for (std::vector<double>& block : blocks) {
      const double scale = std::exp(random.normal(0, 0.3));
      for (double& value : block) value = scale * random.exponential(100);
    }
    return blocks;
  };
  const auto truth_of = [](const auto& window, double q) {
    std::vector<double> values;
    for (int i = 0; i < 300; ++i) {
      for (const std::vector<double>& block : window()) values.insert(values.end(), block.begin(), block.end());
    }
    std::ranges::sort(values);
    return quantile_of_sorted(values, q);
  };
  for (const auto& [figure, q] : {std::pair{Headline::kTtftP50, 0.5}, std::pair{Headline::kTtftP95, 0.95}}) {
    const Coverage even = coverage_of(figure, -100 * std::log(1 - q), 600, independent);
    EXPECT_NEAR(even.low, 0.95, 0.03) << q;
    EXPECT_NEAR(even.high, 0.95, 0.03) << q;
    const Coverage clustered = coverage_of(figure, truth_of(uneven, q), 600, uneven);
    EXPECT_NEAR(clustered.low, 0.95, 0.04) << q;
    EXPECT_NEAR(clustered.high, 0.95, 0.06) << q;
  }
}

TEST(BlockInterval, CoversWhatAQueueDoes) {
  // Poisson arrivals before a server that takes 100 ms for each, busy for half of the time: 300 s in ten blocks.
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  RandomStream random(kSeed);
  const auto window_of = [&](double seconds, std::size_t blocks) {
    std::vector<std::vector<double>> window(blocks);
    double now = -60;
    double free = now;
    while ((now += random.exponential(0.2)) < seconds) {
      free = std::max(now, free) + 0.1;
      if (now >= 0) window[static_cast<std::size_t>(now / seconds * static_cast<double>(blocks))].push_back(free - now);
    }
    return window;
  };
  std::vector<double> all = window_of(100'000, 1).front();
  std::ranges::sort(all);
  const Coverage coverage =
      coverage_of(Headline::kTtftP95, quantile_of_sorted(all, 0.95), 300, [&] { return window_of(300, 10); });
  EXPECT_GE(coverage.low, 0.92);
  EXPECT_GE(coverage.high, 0.88);  // t over the blocks' own percentiles: 0.85
}

}  // namespace
}  // namespace kvist::planning::block_interval_test
