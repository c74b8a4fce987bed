#include "kvist/analysis/pause_shift.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace kvist::analysis::pause_shift_test {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr std::array kQuantiles = {0.50, 0.95, 0.99};
constexpr double kStep = 0.05;  // of the grid, for samples within 1 s

PauseLaw exactly(std::vector<PauseLaw::Bin> bins) {
  return {std::move(bins), 0};
}

std::vector<float> repeated(std::vector<std::pair<int, double>> counts) {
  std::vector<float> samples;
  for (const auto& [count, value] : counts) samples.insert(samples.end(), count, static_cast<float>(value));
  return samples;
}

TEST(PauseShift, WithoutPausesNothingHasMoved) {
  EXPECT_THAT(pause_shifts(repeated({{10, 5}, {10, 7}}), {}, kQuantiles), Each(0));
  EXPECT_THAT(pause_shifts({}, exactly({{.ms = 5, .share = 0.5}}), kQuantiles), ElementsAre(0, 0, 0));
}

TEST(PauseShift, OfEqualTimesItIsThePausesOwnQuantile) {
  // 30 ms all, and what pauses made of them.
  const std::vector<float> samples = repeated({{900, 30}, {52, 32}, {40, 35}, {8, 50}});
  const PauseLaw law = exactly({{.ms = 2, .share = 0.052}, {.ms = 5, .share = 0.040}, {.ms = 20, .share = 0.008}});
  EXPECT_THAT(pause_shifts(samples, law, kQuantiles),
              ElementsAre(DoubleNear(0, kStep), DoubleNear(2, kStep), DoubleNear(5, kStep)));
}

TEST(PauseShift, ATailOfTheServersOwnStays) {
  // One in ten takes 200 ms by itself; pauses of 5 ms cannot have made that.
  const std::vector<float> samples = repeated({{855, 30}, {45, 35}, {95, 200}, {5, 205}});
  EXPECT_THAT(pause_shifts(samples, exactly({{.ms = 5, .share = 0.05}}), kQuantiles),
              ElementsAre(DoubleNear(0, kStep), DoubleNear(0, kStep), DoubleNear(0, kStep)));
}

TEST(PauseShift, NoSampleIsMovedAcrossAGapThatIsLongerThanAnyPause) {
  // 162 answers, of which two took 200 ms: the p99 is one of these, and one more within the hump would make it 27 ms.
  std::vector<float> samples = repeated({{80, 25}, {70, 26}, {10, 27}, {2, 204}});
  EXPECT_THAT(pause_shifts(samples, exactly({{.ms = 0.5, .share = 0.01}, {.ms = 8, .share = 0.01}}), {{0.99}}),
              ElementsAre(DoubleNear(0, kStep)));
}

TEST(PauseShift, FewPausesAreTakenForMore) {
  const PauseLaw few({{.ms = 5, .share = 0.04}}, 4);
  const PauseLaw many({{.ms = 5, .share = 0.04}}, 10'000);
  EXPECT_DOUBLE_EQ(few.share(), 0.08);
  EXPECT_DOUBLE_EQ(many.share(), 0.0408);
  EXPECT_DOUBLE_EQ(PauseLaw({{.ms = 5, .share = 0.9}}, 1).share(), 1) << "never more than all of the time";
}

/// Times as servers have them: a hump, two humps, or a heavy tail.
std::vector<float> draw_times(int form, std::size_t count, std::mt19937_64& random) {
  std::normal_distribution<double> hump(60, 15);
  std::normal_distribution<double> second(400, 80);
  std::lognormal_distribution<double> heavy(3.4, 1.0);
  std::bernoulli_distribution is_second(0.3);
  std::vector<float> times;
  while (times.size() < count) {
    const double time = form == 0   ? hump(random)
                        : form == 1 ? (is_second(random) ? second : hump)(random)
                                    : heavy(random);
    if (time > 0) times.push_back(static_cast<float>(time));
  }
  return times;
}

struct Pauses {
  double share = 0, mean_ms = 0;
  [[nodiscard]] double draw(std::mt19937_64& random) const {
    if (!std::bernoulli_distribution(share)(random)) return 0;
    return std::ceil(std::exponential_distribution<double>(1 / mean_ms)(random));
  }
  [[nodiscard]] PauseLaw law() const {
    std::vector<PauseLaw::Bin> bins;
    for (int i = 1; i < 150; ++i) {
      const double ms = i;
      bins.push_back({.ms = ms, .share = share * (std::exp(-(ms - 1) / mean_ms) - std::exp(-ms / mean_ms))});
    }
    return exactly(std::move(bins));
  }
};

double share_below(const std::vector<float>& sorted, double value) {
  const auto below = std::ranges::upper_bound(sorted, static_cast<float>(value)) - sorted.begin();
  return static_cast<double>(below) / static_cast<double>(sorted.size());
}

TEST(PauseShift, TakesOutWhatRandomPausesHaveAdded) {
  constexpr std::size_t kSamples = 40'000;
  double before = 0;
  double after = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    std::mt19937_64 random(seed);
    const Pauses pauses{.share = 0.02 + 0.01 * static_cast<double>(seed % 12),
                        .mean_ms = 1 + 4 * static_cast<double>(seed % 5)};
    std::vector<float> times = draw_times(static_cast<int>(seed % 3), kSamples, random);
    std::vector<float> measured = times;
    for (float& time : measured) time += static_cast<float>(pauses.draw(random));
    const std::vector<double> shifts = pause_shifts(measured, pauses.law(), kQuantiles);
    std::ranges::sort(times);
    std::ranges::sort(measured);
    for (std::size_t i = 0; i < kQuantiles.size(); ++i) {
      const double q = kQuantiles[i];
      const double seen = measured[static_cast<std::size_t>(q * kSamples)];
      // What is left has the rank q among the true times, up to the chance of the draws; what was measured has not.
      EXPECT_NEAR(share_below(times, seen - shifts[i]), q, 0.006) << "seed " << seed << " quantile " << q;
      EXPECT_GE(shifts[i], 0);
      before += std::abs(share_below(times, seen) - q);
      after += std::abs(share_below(times, seen - shifts[i]) - q);
    }
  }
  EXPECT_LT(after, before / 2);
}

TEST(PauseShift, MoreAndLongerPausesMoveNoLess) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<float> measured = draw_times(static_cast<int>(seed % 3), 5'000, random);
    std::vector<double> least(kQuantiles.size(), 0);
    for (const double share : {0.01, 0.03, 0.1, 0.2}) {
      const std::vector<double> shifts = pause_shifts(measured, exactly({{.ms = 6, .share = share}}), kQuantiles);
      for (std::size_t i = 0; i < least.size(); ++i) EXPECT_GE(shifts[i], least[i] - 1e-9) << "seed " << seed;
      least = shifts;
    }
    for (const double ms : {1.0, 3.0, 10.0}) {
      const auto shorter = pause_shifts(measured, exactly({{.ms = ms, .share = 0.05}}), {{0.5}});
      const auto longer = pause_shifts(measured, exactly({{.ms = 2 * ms, .share = 0.05}}), {{0.5}});
      EXPECT_GE(longer[0], shorter[0] - kStep) << "seed " << seed;
    }
  }
}

TEST(PauseShift, WherePausesTakeMostOfTheTimeItIsABound) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    const Pauses pauses{.share = 0.4 + 0.05 * static_cast<double>(seed % 10), .mean_ms = 10};
    std::vector<float> times = draw_times(static_cast<int>(seed % 3), 20'000, random);
    std::vector<float> measured = times;
    for (float& time : measured) time += static_cast<float>(pauses.draw(random));
    const std::vector<double> shifts = pause_shifts(measured, pauses.law(), kQuantiles);
    std::ranges::sort(times);
    std::ranges::sort(measured);
    for (std::size_t i = 0; i < kQuantiles.size(); ++i) {
      const auto rank = static_cast<std::size_t>(kQuantiles[i] * static_cast<double>(times.size()));
      EXPECT_GE(shifts[i], 0.98 * (measured[rank] - times[rank]) - 0.5) << "seed " << seed << " quantile " << i;
    }
  }
}

}  // namespace
}  // namespace kvist::analysis::pause_shift_test
