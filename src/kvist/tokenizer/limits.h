// Bounds on the contents of a tokenizer.json: far above every published file, and low enough for the memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvist::tokenizer {

inline constexpr std::size_t kMostFileBytes = std::size_t{64} << 20U;  // the largest known has 33 MiB
inline constexpr std::uint32_t kMostTokens = 1U << 22U;                // the largest known has 262,145
inline constexpr std::size_t kMostMerges = std::size_t{1} << 23U;      // the largest known has 580,604
inline constexpr std::size_t kMostTokenBytes = 4'096;
// By which factor its steps may lengthen a text. Those of Llama 2 write three bytes for a space, NFKC up to 11 for 3.
inline constexpr double kMostGrowth = 32;
inline constexpr std::size_t kMostAddedTokens = std::size_t{1} << 17U;

}  // namespace kvist::tokenizer
