#include "kvist/workload/drawn_count.h"

#include <algorithm>
#include <cmath>

#include "kvist/base/check.h"

namespace kvist::workload {
namespace {

using spec::CountLaw;
using spec::CountLawKind;

constexpr int kMostDraws = 1'000;
constexpr int kSampledMean = 20'000;

std::uint32_t draw_share(const CountLaw& law, RandomStream& random) {
  double sum = 0;
  for (const CountLaw::Share& share : law.shares) sum += share.weight;
  double at = random.uniform() * sum;
  for (const CountLaw::Share& share : law.shares) {
    if (at < share.weight) return share.value;
    at -= share.weight;
  }
  return law.shares.back().value;
}

/// Before the bounds are applied.
double draw_freely(const CountLaw& law, RandomStream& random) {
  switch (law.kind) {
    case CountLawKind::kGeometric: {
      if (law.mean <= 1) return 1;
      // The number of trials up to the first success.
      return 1 + std::floor(std::log(1 - random.uniform()) / std::log(1 - 1 / law.mean));
    }
    case CountLawKind::kNormal:
      return std::round(random.normal(law.mean, law.deviation));
    case CountLawKind::kLognormal: {
      const double ratio = law.deviation / law.mean;
      const double variance = std::log(1 + ratio * ratio);
      return std::round(std::exp(random.normal(std::log(law.mean) - variance / 2, std::sqrt(variance))));
    }
    case CountLawKind::kUniform:
    case CountLawKind::kList:
      break;
  }
  KVIST_CHECK(false, "not a law with a shape");
}

}  // namespace

std::uint32_t draw(const spec::BoundedCount& count, RandomStream& random) {
  if (count.law.kind == CountLawKind::kUniform) {
    return static_cast<std::uint32_t>(random.uniform_int(count.low, count.high));
  }
  if (count.law.kind == CountLawKind::kList) return draw_share(count.law, random);
  double value = 0;
  for (int i = 0; i < kMostDraws; ++i) {
    value = draw_freely(count.law, random);
    if (value >= count.low && value <= count.high) return static_cast<std::uint32_t>(value);
  }
  return static_cast<std::uint32_t>(std::clamp(value, static_cast<double>(count.low), static_cast<double>(count.high)));
}

double mean_of(const spec::BoundedCount& count) {
  if (count.law.kind == CountLawKind::kUniform) return 0.5 * count.low + 0.5 * count.high;
  if (count.law.kind == CountLawKind::kList) {
    double sum = 0;
    double weights = 0;
    for (const CountLaw::Share& share : count.law.shares) {
      sum += share.weight * share.value;
      weights += share.weight;
    }
    return sum / weights;
  }
  RandomStream random(1);
  double sum = 0;
  for (int i = 0; i < kSampledMean; ++i) sum += draw(count, random);
  return sum / kSampledMean;
}

}  // namespace kvist::workload
