#include "kvist/engine/cpu/kernels/targets.h"
//
#include <cmath>

#include "kvist/engine/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvist/engine/cpu/kernels/rowwise.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvist::engine::cpu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Vector = hn::Vec<F32>;

constexpr std::size_t kLanes = hn::MaxLanes(F32());

void rms_norm_dispatched(const float* HWY_RESTRICT x, const float* HWY_RESTRICT weight, float epsilon, std::size_t n,
                         float* HWY_RESTRICT out) {
  const std::size_t end = padded(n);
  Vector first = hn::Zero(F32());
  Vector second = hn::Zero(F32());
  for (std::size_t i = 0; i < end; i += 2 * kLanes) {  // kRowPadding is a multiple
    const Vector a = hn::LoadU(F32(), x + i);
    const Vector b = hn::LoadU(F32(), x + i + kLanes);
    first = hn::MulAdd(a, a, first);
    second = hn::MulAdd(b, b, second);
  }
  const float sum = hn::GetLane(hn::SumOfLanes(F32(), hn::Add(first, second)));
  const Vector scale = hn::Set(F32(), 1.0F / std::sqrt(sum / static_cast<float>(n) + epsilon));
  for (std::size_t i = 0; i < end; i += kLanes) {
    const Vector normal = hn::Mul(hn::LoadU(F32(), x + i), scale);
    hn::StoreU(hn::Mul(normal, hn::LoadU(F32(), weight + i)), F32(), out + i);
  }
}

void add_dispatched(float* HWY_RESTRICT x, const float* HWY_RESTRICT y, std::size_t n) {
  for (std::size_t i = 0; i < padded(n); i += kLanes) {
    hn::StoreU(hn::Add(hn::LoadU(F32(), x + i), hn::LoadU(F32(), y + i)), F32(), x + i);
  }
}

void add_panel_dispatched(float* HWY_RESTRICT x, const float* HWY_RESTRICT y) {
  for (std::size_t i = 0; i < 2 * kLanes; i += kLanes) {
    hn::StoreU(hn::Add(hn::LoadU(F32(), x + i), hn::LoadU(F32(), y + i)), F32(), x + i);
  }
}

void rms_norm_head_dispatched(float* HWY_RESTRICT head, const float* HWY_RESTRICT weight, float epsilon,
                              std::size_t head_dim) {
  using Capped = hn::CappedTag<float, 16>;  // a head is a multiple of 16
  constexpr std::size_t kStep = hn::MaxLanes(Capped());
  auto squares = hn::Zero(Capped());
  for (std::size_t i = 0; i < head_dim; i += kStep) {
    const auto a = hn::LoadU(Capped(), head + i);
    squares = hn::MulAdd(a, a, squares);
  }
  const float sum = hn::GetLane(hn::SumOfLanes(Capped(), squares));
  const auto scale = hn::Set(Capped(), 1.0F / std::sqrt(sum / static_cast<float>(head_dim) + epsilon));
  for (std::size_t i = 0; i < head_dim; i += kStep) {
    const auto normal = hn::Mul(hn::LoadU(Capped(), head + i), scale);
    hn::StoreU(hn::Mul(normal, hn::LoadU(Capped(), weight + i)), Capped(), head + i);
  }
}

void silu_multiply_dispatched(const float* HWY_RESTRICT gate, const float* HWY_RESTRICT up, std::size_t n,
                              float* HWY_RESTRICT out) {
  const Vector one = hn::Set(F32(), 1.0F);
  const Vector most = hn::Set(F32(), 88.0F);  // exp(88) is near the largest F32: beyond it, Exp is undefined
  for (std::size_t i = 0; i < n; i += kLanes) {
    const Vector g = hn::LoadU(F32(), gate + i);
    const Vector silu = hn::Div(g, hn::Add(one, hn::Exp(F32(), hn::Min(hn::Neg(g), most))));
    hn::StoreU(hn::Mul(silu, hn::LoadU(F32(), up + i)), F32(), out + i);
  }
}

void rope_dispatched(float* HWY_RESTRICT head, const float* HWY_RESTRICT angles, std::size_t head_dim) {
  using Capped = hn::CappedTag<float, 8>;  // half a head is a multiple of 8
  const std::size_t half = head_dim / 2;
  for (std::size_t i = 0; i < half; i += hn::MaxLanes(Capped())) {
    const auto cosine = hn::LoadU(Capped(), angles + i);
    const auto sine = hn::LoadU(Capped(), angles + half + i);
    const auto a = hn::LoadU(Capped(), head + i);
    const auto b = hn::LoadU(Capped(), head + half + i);
    hn::StoreU(hn::Sub(hn::Mul(a, cosine), hn::Mul(b, sine)), Capped(), head + i);
    hn::StoreU(hn::Add(hn::Mul(b, cosine), hn::Mul(a, sine)), Capped(), head + half + i);
  }
}

}  // namespace kvist::engine::cpu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvist::engine::cpu::kernels {

HWY_EXPORT(rms_norm_dispatched);
HWY_EXPORT(add_dispatched);
HWY_EXPORT(add_panel_dispatched);
HWY_EXPORT(rms_norm_head_dispatched);
HWY_EXPORT(silu_multiply_dispatched);
HWY_EXPORT(rope_dispatched);

void rms_norm(const float* x, const float* weight, float epsilon, std::size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(rms_norm_dispatched)(x, weight, epsilon, n, out);
}

void add(float* x, const float* y, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(add_dispatched)(x, y, n);
}

void add_panel(float* x, const float* y) {
  HWY_DYNAMIC_DISPATCH(add_panel_dispatched)(x, y);
}

void rms_norm_head(float* head, const float* weight, float epsilon, std::size_t head_dim) {
  HWY_DYNAMIC_DISPATCH(rms_norm_head_dispatched)(head, weight, epsilon, head_dim);
}

void silu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(silu_multiply_dispatched)(gate, up, n, out);
}

void rope(float* head, const float* angles, std::size_t head_dim) {
  HWY_DYNAMIC_DISPATCH(rope_dispatched)(head, angles, head_dim);
}

}  // namespace kvist::engine::cpu::kernels
#endif
