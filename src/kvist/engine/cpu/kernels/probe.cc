#include "kvist/engine/cpu/kernels/targets.h"
//
#include "kvist/engine/cpu/kernels/probe.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvist/engine/cpu/kernels/probe.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvist::engine::cpu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Words = hn::ScalableTag<std::uint32_t>;

// Two units with a latency of 4 (or 5) cycles need 8 to 10; with both factors, 14 of 16 registers.
constexpr std::size_t kChains = 12;

std::uint64_t fma_probe_dispatched(std::uint64_t rounds, float& sink) {
  const auto factor = hn::Set(F32(), 0.999F);
  const auto term = hn::Set(F32(), 0.001F);
  hn::Vec<F32> chains[kChains];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kChains; ++i) chains[i] = hn::Set(F32(), static_cast<float>(i));
  for (std::uint64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kChains; ++i) chains[i] = hn::MulAdd(chains[i], factor, term);
  }
  auto sum = chains[0];
#pragma GCC unroll 16
  for (std::size_t i = 1; i < kChains; ++i) sum = hn::Add(sum, chains[i]);
  sink = hn::GetLane(hn::SumOfLanes(F32(), sum));
  return rounds * kChains * hn::MaxLanes(F32()) * 2;
}

std::uint32_t read_probe_dispatched(const std::uint32_t* words, std::size_t n) {
  constexpr std::size_t kLanes = hn::MaxLanes(Words());
  constexpr std::size_t kSums = 8;
  hn::Vec<Words> sums[kSums];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kSums; ++i) sums[i] = hn::Zero(Words());
  std::size_t at = 0;
  for (; at + kSums * kLanes <= n; at += kSums * kLanes) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kSums; ++i) sums[i] = hn::Add(sums[i], hn::LoadU(Words(), words + at + i * kLanes));
  }
  std::uint32_t total = 0;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kSums; ++i) total += hn::GetLane(hn::SumOfLanes(Words(), sums[i]));
  for (; at < n; ++at) total += words[at];
  return total;
}

}  // namespace kvist::engine::cpu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvist::engine::cpu::kernels {

HWY_EXPORT(fma_probe_dispatched);
HWY_EXPORT(read_probe_dispatched);

std::uint64_t fma_probe(std::uint64_t rounds, float& sink) {
  return HWY_DYNAMIC_DISPATCH(fma_probe_dispatched)(rounds, sink);
}

std::uint32_t read_probe(std::span<const std::uint32_t> words) {
  return HWY_DYNAMIC_DISPATCH(read_probe_dispatched)(words.data(), words.size());
}

}  // namespace kvist::engine::cpu::kernels
#endif
