// Rotary position embeddings: the angles by which pairs of a head's numbers are turned.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvist/engine/cpu/llama_config.h"

namespace kvist::engine::cpu {

/// Radians per position for each of the head_dim / 2 pairs: theta^(-2i / head_dim), in double. With Llama 3's scaling a
/// frequency whose wavelength is longer than original / low_frequency_factor is divided by the factor, one shorter than
/// original / high_frequency_factor is kept, and between the two it is interpolated by
/// s = (original / wavelength - low) / (high - low): (1 - s) f / factor + s f.
[[nodiscard]] std::vector<double> rope_frequencies(const LlamaConfig& config);

/// cos and sin of position times frequency, each rounded once from double. Requires: out.size() == 2 x frequencies: the
/// cosines, then the sines.
void rope_angles(std::span<const double> frequencies, std::uint32_t position, std::span<float> out);

}  // namespace kvist::engine::cpu
