// Which instruction sets the kernels are compiled for; to be included before Highway in each of their files, so that
// all have the same. On x86: AVX2 with FMA, AVX-512, and the baseline for whatever else. Not the sets between, which
// add compile time only, nor SVE, whose vectors cannot be elements of an array.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
