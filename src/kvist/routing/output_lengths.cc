#include "kvist/routing/output_lengths.h"

#include <array>
#include <cmath>

namespace kvist::routing {
namespace {

/// The number of answers that the initial guess counts for.
constexpr double kGuessWeight = 4;
/// Above this share of the requests, the time until so many have ended grows in proportion to their number.
constexpr double kNearlyAll = 0.95;
/// The time until some answers have ended is found to this share of it, in as many halvings at most.
constexpr double kPrecision = 0.01;
constexpr int kHalvings = 24;

struct Bin {
  double begin = 0;
  double width = 0;
  double per_token = 0;  ///< 1 / width, which is exact, because widths are powers of two
};
constexpr std::array<Bin, kBins> kAllBins = [] {
  std::array<Bin, kBins> bins;
  for (std::size_t i = 0; i < kBins; ++i) {
    const auto begin = static_cast<double>(bin_begin(i));
    const double width = static_cast<double>(bin_begin(i + 1)) - begin;
    bins[i] = {.begin = begin, .width = width, .per_token = 1 / width};
  }
  return bins;
}();
constexpr auto kEndOfBins = static_cast<double>(bin_begin(kBins));

double width_of(std::size_t bin) {
  return kAllBins[bin].width;
}

/// On average a request is in the middle of its bin.
double middle_of(std::size_t bin) {
  return kAllBins[bin].begin + kAllBins[bin].width / 2;
}

}  // namespace

OutputLengths::OutputLengths(double mean_guess_tokens) {
  double reached = kGuessWeight;
  for (std::size_t i = 0; i < kBins; ++i) {
    passed_[i] = reached * std::exp(-width_of(i) / std::max(1.0, mean_guess_tokens));
    ended_[i] = reached - passed_[i];
    reached = passed_[i];
  }
  rebuild();
}

void OutputLengths::observe(std::uint64_t tokens) {
  const double keep = std::exp2(-1 / kMemory);
  for (std::size_t i = 0; i < kBins; ++i) {
    passed_[i] *= keep;
    ended_[i] *= keep;
  }
  ended_[bin_of(tokens)] += 1;
  rebuild();
}

void OutputLengths::rebuild() {
  double alive = 1;
  for (std::size_t i = 0; i < kBins; ++i) {
    survival_[i] = alive;
    // Both counts decay alike, so their ratio stays valid for bins that no answer reaches any more.
    const double reached = passed_[i] + ended_[i];
    alive *= reached > 1e-9 ? passed_[i] / reached : 0.5;
  }
  survival_[kBins] = alive;
  double rest = 0;  // the integral of the survival from the end of the bin on
  for (std::size_t i = kBins; i-- > 0;) {
    const double now = (survival_[i] + survival_[i + 1]) / 2;
    const double in_bin = (now + survival_[i + 1]) / 2 * width_of(i) / 2;
    total_[i] = middle_of(i) + (now > 1e-12 ? (in_bin + rest) / now : width_of(i));
    rest += now * width_of(i);
  }
  mean_tokens_ = rest;
  total_[0] = std::max(total_[0], mean_tokens_);
  for (std::size_t i = 1; i < kBins; ++i) total_[i] = std::max(total_[i], total_[i - 1]);
}

double OutputLengths::total_tokens(const OutputProgress& progress) const {
  double tokens = 0;
  progress.for_each([&](std::size_t bin, std::uint32_t requests) { tokens += requests * total_[bin]; });
  return tokens;
}

double OutputLengths::survival(double tokens) const {
  const std::size_t bin = bin_of(static_cast<std::uint64_t>(tokens));
  const double part = std::min(1.0, (tokens - kAllBins[bin].begin) * kAllBins[bin].per_token);
  return survival_[bin] + part * (survival_[bin + 1] - survival_[bin]);
}

double OutputLengths::ended(const OutputProgress& progress, double steps) const {
  double ended = 0;
  progress.for_each([&](std::size_t bin, std::uint32_t requests) {
    const double middle = middle_of(bin);
    const double now = survival(middle);
    ended += requests * (now > 1e-12 ? 1 - survival(middle + steps) / now : 1);
  });
  return ended;
}

double OutputLengths::steps_until_ended(const OutputProgress& progress, double count) const {
  double requests = 0;
  progress.for_each([&](std::size_t, std::uint32_t in_bin) { requests += in_bin; });
  if (requests == 0) return 0;
  const double nearly_all = kNearlyAll * requests;
  const double stretched = std::max(1.0, count / nearly_all);
  const double wanted = std::min(count, nearly_all);
  double low = 0;
  double high = kLeastSteps;
  while (high < kEndOfBins && ended(progress, high) < wanted) {
    low = high;
    high *= 2;
  }
  for (int i = 0; i < kHalvings && high - low > kPrecision * high; ++i) {
    const double middle = (low + high) / 2;
    (ended(progress, middle) < wanted ? low : high) = middle;
  }
  return std::max(high, kLeastSteps * std::min(1.0, count / requests)) * stretched;
}

}  // namespace kvist::routing
