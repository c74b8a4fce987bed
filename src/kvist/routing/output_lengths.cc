#include "kvist/routing/output_lengths.h"

#include <cmath>

namespace kvist::routing {
namespace {

/// The number of answers that the initial guess counts for.
constexpr double kGuessWeight = 4;
/// Above this share of the requests, the time until so many have ended goes on in proportion.
constexpr double kNearlyAll = 0.95;
/// The time until some answers have ended is found to this share of it, in as many halvings at most.
constexpr double kPrecision = 0.01;
constexpr int kHalvings = 24;

double begin_of(std::size_t stretch) {
  return static_cast<double>(stretch_begin(stretch));
}

double width_of(std::size_t stretch) {
  return begin_of(stretch + 1) - begin_of(stretch);
}

/// On average a request is in the middle of its stretch.
double middle_of(std::size_t stretch) {
  return begin_of(stretch) + width_of(stretch) / 2;
}

}  // namespace

OutputLengths::OutputLengths(double mean_guess_tokens) {
  double reached = kGuessWeight;
  for (std::size_t i = 0; i < kStretches; ++i) {
    passed_[i] = reached * std::exp(-width_of(i) / std::max(1.0, mean_guess_tokens));
    ended_[i] = reached - passed_[i];
    reached = passed_[i];
  }
  rebuild();
}

void OutputLengths::observe(std::uint64_t tokens) {
  const double keep = std::exp2(-1 / kMemory);
  for (std::size_t i = 0; i < kStretches; ++i) {
    passed_[i] *= keep;
    ended_[i] *= keep;
  }
  ended_[stretch_of(tokens)] += 1;
  rebuild();
}

void OutputLengths::rebuild() {
  double alive = 1;
  for (std::size_t i = 0; i < kStretches; ++i) {
    survival_[i] = alive;
    // Both counts decay alike, so their ratio stays valid for stretches that no answer reaches any more.
    const double reached = passed_[i] + ended_[i];
    alive *= reached > 1e-9 ? passed_[i] / reached : 0.5;
  }
  survival_[kStretches] = alive;
  double rest = 0;  // the integral of the survival from the end of the stretch on
  for (std::size_t i = kStretches; i-- > 0;) {
    const double now = (survival_[i] + survival_[i + 1]) / 2;
    const double in_stretch = (now + survival_[i + 1]) / 2 * width_of(i) / 2;
    total_[i] = middle_of(i) + (now > 1e-12 ? (in_stretch + rest) / now : width_of(i));
    rest += now * width_of(i);
  }
  mean_tokens_ = rest;
  total_[0] = std::max(total_[0], mean_tokens_);
  for (std::size_t i = 1; i < kStretches; ++i) total_[i] = std::max(total_[i], total_[i - 1]);
}

double OutputLengths::total_tokens(const OutputProgress& progress) const {
  double tokens = 0;
  progress.for_each([&](std::size_t stretch, std::uint32_t requests) { tokens += requests * total_[stretch]; });
  return tokens;
}

double OutputLengths::survival(double tokens) const {
  const std::size_t stretch = stretch_of(static_cast<std::uint64_t>(tokens));
  const double part = std::min(1.0, (tokens - begin_of(stretch)) / width_of(stretch));
  return survival_[stretch] + part * (survival_[stretch + 1] - survival_[stretch]);
}

double OutputLengths::ended(const OutputProgress& progress, double steps) const {
  double ended = 0;
  progress.for_each([&](std::size_t stretch, std::uint32_t requests) {
    const double middle = middle_of(stretch);
    const double now = survival(middle);
    ended += requests * (now > 1e-12 ? 1 - survival(middle + steps) / now : 1);
  });
  return ended;
}

double OutputLengths::steps_until_ended(const OutputProgress& progress, double count) const {
  double requests = 0;
  progress.for_each([&](std::size_t, std::uint32_t in_stretch) { requests += in_stretch; });
  if (requests == 0) return 0;
  const double nearly_all = kNearlyAll * requests;
  const double stretched = std::max(1.0, count / nearly_all);
  const double wanted = std::min(count, nearly_all);
  double low = 0;
  double high = kLeastSteps;
  while (high < begin_of(kStretches) && ended(progress, high) < wanted) {
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
