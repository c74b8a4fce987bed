// What this machine gives at best, for putting measurements beside: with the same vectors as the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvist::engine::cpu::kernels {

/// Fused multiply-adds in registers alone, in as many chains as keep every unit at work. Returns how many additions and
/// multiplications that were; `sink` takes the result, so that nothing is optimised away.
std::uint64_t fma_probe(std::uint64_t rounds, float& sink);

/// Reads every byte once, from the first to the last, and returns their sum as words.
std::uint32_t read_probe(std::span<const std::uint32_t> words);

}  // namespace kvist::engine::cpu::kernels
