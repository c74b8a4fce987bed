#include "kvist/routing/output_lengths.h"

#include <cmath>

namespace kvist::routing {
namespace {

/// The number of answers that the initial guess counts for.
constexpr double kGuessWeight = 4;

}  // namespace

OutputLengths::OutputLengths(double mean_guess_tokens) {
  const double hazard = std::min(0.9, static_cast<double>(kStretchTokens) / mean_guess_tokens);
  double reached = kGuessWeight;
  for (std::size_t i = 0; i < kStretches; ++i) {
    reached_[i] = reached;
    ended_[i] = reached * hazard;
    reached -= ended_[i];
  }
  rebuild();
}

void OutputLengths::observe(std::uint64_t tokens) {
  const double keep = std::exp2(-1 / kMemory);
  const std::size_t last = stretch_of(tokens);
  for (std::size_t i = 0; i < kStretches; ++i) {
    reached_[i] *= keep;
    ended_[i] *= keep;
    if (i <= last) reached_[i] += 1;
  }
  ended_[last] += 1;
  rebuild();
}

void OutputLengths::rebuild() {
  double alive = 1;
  double mean = 0;
  for (std::size_t i = 0; i < kStretches; ++i) {
    survival_[i] = alive;
    // Both counts decay alike, so their ratio stays valid for stretches that no answer reaches any more.
    const double hazard = reached_[i] > 1e-9 ? std::min(1.0, ended_[i] / reached_[i]) : 0.5;
    const double next = alive * (1 - hazard);
    mean += (alive + next) / 2 * static_cast<double>(kStretchTokens);
    alive = next;
  }
  survival_[kStretches] = alive;
  mean_tokens_ = mean;
}

double OutputLengths::steps_until_ended(const OutputProgress& progress, double count) const {
  double ended_before = 0;
  for (std::size_t ahead = 1; ahead <= kStretches; ++ahead) {
    double ended = 0;
    for (std::size_t at = 0; at < kStretches; ++at) {
      const std::uint32_t requests = progress.in_stretch(at);
      if (requests == 0) continue;
      // On average a request is in the middle of its stretch, so its survival is the mean of that at the two ends.
      const double now = (survival_[at] + survival_[std::min(at + 1, kStretches)]) / 2;
      const std::size_t then = std::min(at + ahead, kStretches);
      const double later = (survival_[then] + survival_[std::min(then + 1, kStretches)]) / 2;
      ended += requests * (now > 1e-12 ? 1 - later / now : 1);
    }
    if (ended >= count) {
      const double part = ended > ended_before ? (count - ended_before) / (ended - ended_before) : 1;
      return (static_cast<double>(ahead - 1) + part) * static_cast<double>(kStretchTokens);
    }
    ended_before = ended;
  }
  return static_cast<double>(kStretches * kStretchTokens);
}

}  // namespace kvist::routing
