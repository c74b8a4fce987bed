#include "kvist/engine/cpu/rope.h"

#include <cmath>
#include <numbers>

#include "kvist/base/check.h"

namespace kvist::engine::cpu {
namespace {

double scaled(double frequency, const Llama3RopeScaling& scaling) {
  const double original = scaling.original_positions;
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / scaling.high_frequency_factor) return frequency;
  if (wavelength > original / scaling.low_frequency_factor) return frequency / scaling.factor;
  const double smooth = (original / wavelength - scaling.low_frequency_factor) /
                        (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

std::vector<double> rope_frequencies(const LlamaConfig& config) {
  std::vector<double> frequencies(config.head_dim / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = 2 * static_cast<double>(i) / config.head_dim;
    frequencies[i] = 1 / std::pow(config.rope_theta, exponent);
    if (config.rope_scaling) frequencies[i] = scaled(frequencies[i], *config.rope_scaling);
  }
  return frequencies;
}

void rope_angles(std::span<const double> frequencies, std::uint32_t position, std::span<float> out) {
  KVIST_CHECK(out.size() == 2 * frequencies.size(), "room for a cosine and a sine each");
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double angle = position * frequencies[i];
    out[i] = static_cast<float>(std::cos(angle));
    out[frequencies.size() + i] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace kvist::engine::cpu
