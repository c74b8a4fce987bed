// The instruction sets that the kernels are compiled for; each of their files includes this before Highway, so that all
// have the same. On x86: AVX2 with FMA, AVX-512, and the baseline for everything else. Not the sets between, which only
// add compile time, nor SVE, whose vectors cannot be elements of an array.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
