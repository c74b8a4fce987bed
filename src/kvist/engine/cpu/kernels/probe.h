// The machine's peak arithmetic and memory rates, as bounds for measurements: with the same vectors as the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvist::engine::cpu::kernels {

/// Fused multiply-adds in registers, in enough chains to keep every unit busy. Returns the number of additions and
/// multiplications; `sink` takes the result, so that nothing is optimised away.
std::uint64_t fma_probe(std::uint64_t rounds, float& sink);

/// Reads every byte once, from the first to the last, and returns their sum as words.
std::uint32_t read_probe(std::span<const std::uint32_t> words);

}  // namespace kvist::engine::cpu::kernels
