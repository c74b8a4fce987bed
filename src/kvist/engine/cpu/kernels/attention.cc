#include "kvist/engine/cpu/kernels/targets.h"
//
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "kvist/engine/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvist/engine/cpu/kernels/attention.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvist::engine::cpu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Words = hn::ScalableTag<std::uint32_t>;
using Halves = hn::Rebind<std::uint16_t, Words>;
using Float16s = hn::Rebind<hwy::float16_t, F32>;
using Vector = hn::Vec<F32>;

constexpr std::size_t kLanes = hn::MaxLanes(F32());
// The unit of vector work: scores of 16 tokens, or 16 numbers of the values.
constexpr std::size_t kUnit = 16;
constexpr std::size_t kVectors = kUnit / kLanes;
static_assert(kUnit % kLanes == 0);
// Rows of a tile by one unit: kTileRows x kVectors sums, kVectors loaded, one broadcast: 15 of 16 registers, 14 of 32
// (29 with vectors of 4). Up to kTwoUnitRows rows two units are taken at once, where the registers hold them (12 x 2
// sums, 2 loaded, one broadcast of 32; 2 x 4, 4 and 1 of 16): few sums would wait for each other, and each broadcast
// serves twice.
#if HWY_TARGET == HWY_AVX3
constexpr std::size_t kTileRows = 12;
constexpr std::size_t kTwoUnitRows = 12;
#else
constexpr std::size_t kTileRows = 6;
constexpr std::size_t kTwoUnitRows = 2;
#endif

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kSpan = 64;  // tokens between two updates of the running maximum
constexpr std::size_t kScoreStride = kAttentionScores;
constexpr std::size_t kMaxSpanBlocks = 4;  // of 16 tokens in a span

/// The types of keys and values, and how they are widened to F32.
struct StoredBf16 {
  using Number = std::uint16_t;
  static HWY_INLINE Vector load(const Number* at) {
    return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), hn::LoadU(Halves(), at))));
  }
};
struct StoredF16 {
  using Number = hwy::float16_t;
  static HWY_INLINE Vector load(const Number* at) { return hn::PromoteTo(F32(), hn::LoadU(Float16s(), at)); }
};
struct StoredF32 {
  using Number = float;
  static HWY_INLINE Vector load(const Number* at) { return hn::LoadU(F32(), at); }
};

template <class Stored>
HWY_INLINE void load_unit(const typename Stored::Number* HWY_RESTRICT at, Vector* HWY_RESTRICT out) {
#pragma GCC unroll 16
  for (std::size_t v = 0; v < kVectors; ++v) out[v] = Stored::load(at + v * kLanes);
}

/// The keys of a unit of 16 tokens, and the memory of the next span's unit to prefetch: kLinesPerNumber cache lines for
/// each number of the head.
template <class Stored>
struct UnitKeys {
  static constexpr std::size_t kLinesPerNumber = 2 * kUnit * sizeof(typename Stored::Number) / kLineBytes;
  static_assert(2 * kUnit * sizeof(typename Stored::Number) % kLineBytes == 0);

  HWY_INLINE void prefetch(std::size_t number) const {
    const char* const at = reinterpret_cast<const char*>(ahead) + number * kLinesPerNumber * kLineBytes;
    hwy::Prefetch(at);
    if constexpr (kLinesPerNumber > 1) hwy::Prefetch(at + kLineBytes);
  }

  const typename Stored::Number* keys;
  const typename Stored::Number* ahead;
};

/// scores[kRows][kUnits x 16 tokens] = queries x keys: queries packed as [head_dim][kRows], keys [head_dim] rows of
/// `block_size`. Prefetches the next span meanwhile.
template <class Stored, std::size_t kRows, std::size_t kUnits>
HWY_NOINLINE void score_tile(const float* HWY_RESTRICT queries, const UnitKeys<Stored>* units, std::size_t block_size,
                             std::size_t head_dim, float* HWY_RESTRICT scores) {
  constexpr std::size_t kAll = kUnits * kVectors;
  Vector sums[kRows][kAll];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kAll; ++v) sums[r][v] = hn::Zero(F32());
  }
  const UnitKeys<Stored> one = units[0];
  const UnitKeys<Stored> other = units[kUnits - 1];
  const typename Stored::Number* HWY_RESTRICT first = one.keys;
  const typename Stored::Number* HWY_RESTRICT second = other.keys;
  for (std::size_t d = 0; d < head_dim; ++d) {
    one.prefetch(d);
    if (kUnits > 1) other.prefetch(d);
    Vector key[kAll];
    load_unit<Stored>(first, key);
    if (kUnits > 1) load_unit<Stored>(second, key + kAll - kVectors);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
      const Vector query = hn::Set(F32(), queries[r]);
#pragma GCC unroll 32
      for (std::size_t v = 0; v < kAll; ++v) sums[r][v] = hn::MulAdd(query, key[v], sums[r][v]);
    }
    queries += kRows;
    first += block_size;
    second += block_size;
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kAll; ++v) hn::StoreU(sums[r][v], F32(), scores + r * kScoreStride + v * kLanes);
  }
}

/// The values of a span's tokens: some blocks, each [block_size][head_dim].
template <class Stored>
struct SpanValues {
  const typename Stored::Number* blocks[kMaxSpanBlocks];
  std::size_t block_size;
  std::size_t tokens;
};

/// sums[kRows][kUnits x 16 numbers] = sums x shrink + weights x values, over the span's tokens.
template <class Stored, std::size_t kRows, std::size_t kUnits>
HWY_NOINLINE void value_tile(const float* HWY_RESTRICT weights, const float* HWY_RESTRICT shrink,
                             const SpanValues<Stored>& values, std::size_t head_dim, std::size_t from,
                             float* HWY_RESTRICT out) {
  constexpr std::size_t kAll = kUnits * kVectors;
  Vector sums[kRows][kAll];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kAll; ++v) {
      sums[r][v] = hn::Mul(hn::LoadU(F32(), out + r * head_dim + v * kLanes), hn::Set(F32(), shrink[r]));
    }
  }
  for (std::size_t first = 0; first < values.tokens; first += values.block_size) {
    const typename Stored::Number* HWY_RESTRICT row = values.blocks[first / values.block_size] + from;
    const std::size_t end = values.tokens - first < values.block_size ? values.tokens : first + values.block_size;
    for (std::size_t t = first; t < end; ++t) {
      Vector value[kAll];
      load_unit<Stored>(row, value);
      if (kUnits > 1) load_unit<Stored>(row + kUnit, value + kAll - kVectors);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < kRows; ++r) {
        const Vector weight = hn::Set(F32(), weights[r * kScoreStride + t]);
#pragma GCC unroll 32
        for (std::size_t v = 0; v < kAll; ++v) sums[r][v] = hn::MulAdd(weight, value[v], sums[r][v]);
      }
      row += head_dim;
    }
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kAll; ++v) hn::StoreU(sums[r][v], F32(), out + r * head_dim + v * kLanes);
  }
}

/// The functions for a number of rows, by one unit and by two.
template <class Stored>
struct TileCalls {
  using ScoreCall = void (*)(const float*, const UnitKeys<Stored>*, std::size_t, std::size_t, float*);
  using ValueCall = void (*)(const float*, const float*, const SpanValues<Stored>&, std::size_t, std::size_t, float*);
  ScoreCall score[2];
  ValueCall value[2];
};

/// If two units do not pay, both are the function for one unit, and units_of() returns 1.
template <class Stored, std::size_t kRows>
constexpr TileCalls<Stored> calls_for() {
  constexpr std::size_t kMost = kRows <= kTwoUnitRows ? 2 : 1;
  return {{&score_tile<Stored, kRows, 1>, &score_tile<Stored, kRows, kMost>},
          {&value_tile<Stored, kRows, 1>, &value_tile<Stored, kRows, kMost>}};
}

constexpr std::size_t units_of(std::size_t rows) {
  return rows <= kTwoUnitRows ? 2 : 1;
}

/// For 1 to kTileRows rows.
template <class Stored, std::size_t... kRows>
const TileCalls<Stored>& calls_among(std::size_t rows, std::index_sequence<kRows...> /*all*/) {
  static constexpr TileCalls<Stored> kCalls[] = {calls_for<Stored, kRows + 1>()...};
  return kCalls[rows - 1];
}

template <class Stored>
const TileCalls<Stored>& calls_of(std::size_t rows) {
  return calls_among<Stored>(rows, std::make_index_sequence<kTileRows>());
}

/// Turns a row's scores into weights relative to the running maximum; returns the factor by which its earlier sums are
/// scaled. Scores from `valid` on belong to tokens that the causal mask hides from the row: their weights become zero.
float soften(float* HWY_RESTRICT scores, std::size_t valid, std::size_t end, float& maximum, float& total) {
  if (valid == 0) {
    std::fill(scores, scores + end, 0.0F);
    return 1.0F;
  }
  std::fill(scores + valid, scores + end, -std::numeric_limits<float>::infinity());
  Vector highest = hn::Set(F32(), maximum);
  for (std::size_t i = 0; i < end; i += kLanes) highest = hn::Max(highest, hn::LoadU(F32(), scores + i));
  const float now = hn::GetLane(hn::MaxOfLanes(F32(), highest));
  const Vector base = hn::Set(F32(), now);
  Vector sum = hn::Zero(F32());
  for (std::size_t i = 0; i < end; i += kLanes) {
    const Vector weight = hn::Exp(F32(), hn::Sub(hn::LoadU(F32(), scores + i), base));
    sum = hn::Add(sum, weight);
    hn::StoreU(weight, F32(), scores + i);
  }
  const float shrink = hn::GetLane(hn::Exp(F32(), hn::Sub(hn::Set(F32(), maximum), base)));
  total = total * shrink + hn::GetLane(hn::SumOfLanes(F32(), sum));
  maximum = now;
  return shrink;
}

/// One task's state, in its thread's scratch. Query vector i is row i / group, head i % group.
template <class Stored>
class Attention {
 public:
  using Number = typename Stored::Number;

  explicit Attention(const AttentionTask& task)
      : task_(task),
        cache_(static_cast<const Number*>(task.cache)),
        vectors_(task.rows * task.group),
        tiles_((vectors_ + kTileRows - 1) / kTileRows),
        queries_(task.scratch),
        sums_(queries_ + vectors_ * task.head_dim),
        scores_(sums_ + vectors_ * task.head_dim),
        maxima_(scores_ + vectors_ * kScoreStride),
        totals_(maxima_ + vectors_),
        shrink_(totals_ + vectors_) {}

  void run() {
    pack_queries();
    std::fill(sums_, sums_ + vectors_ * task_.head_dim, 0.0F);
    std::fill(maxima_, maxima_ + vectors_, -std::numeric_limits<float>::infinity());
    std::fill(totals_, totals_ + vectors_, 0.0F);
    const std::size_t tokens = task_.first_position + task_.rows;
    const std::size_t span = std::max(kSpan, task_.block_size);
    for (std::size_t first = 0; first < tokens; first += span) add_span(first, std::min(span, tokens - first), span);
    write();
  }

 private:
  [[nodiscard]] std::size_t tile_begin(std::size_t tile) const {
    return tile * (vectors_ / tiles_) + std::min(tile, vectors_ % tiles_);
  }
  [[nodiscard]] const Number* block(std::size_t token) const {
    return cache_ + task_.blocks[token / task_.block_size].value() * task_.block_stride;
  }

  /// Scaled, tile by tile as [head_dim][rows of the tile].
  void pack_queries() {
    for (std::size_t tile = 0; tile < tiles_; ++tile) {
      const std::size_t begin = tile_begin(tile);
      const std::size_t rows = tile_begin(tile + 1) - begin;
      float* const out = queries_ + begin * task_.head_dim;
      for (std::size_t r = 0; r < rows; ++r) {
        const float* const query =
            task_.queries + (begin + r) / task_.group * task_.query_stride + (begin + r) % task_.group * task_.head_dim;
        for (std::size_t d = 0; d < task_.head_dim; ++d) out[d * rows + r] = query[d] * task_.scale;
      }
    }
  }

  /// The keys of the unit that begins with `token`, and the address of the unit `span` tokens later, if there is one.
  [[nodiscard]] UnitKeys<Stored> unit_at(std::size_t token, std::size_t span) const {
    const Number* const keys = block(token) + token % task_.block_size;
    const std::size_t later = token + span;
    if (later >= task_.first_position + task_.rows) return {keys, keys};
    return {keys, block(later) + later % task_.block_size / kUnit * (2 * kUnit * task_.head_dim)};
  }

  void add_span(std::size_t first, std::size_t tokens, std::size_t span) {
    const std::size_t most = units_of(tile_begin(1));  // the first tile has the most rows
    for (std::size_t at = 0; at < tokens;) {
      const std::size_t units = at + kUnit < tokens ? most : 1;
      const UnitKeys<Stored> keys[2] = {unit_at(first + at, span), unit_at(first + at + (units - 1) * kUnit, span)};
      for (std::size_t tile = 0; tile < tiles_; ++tile) {
        const std::size_t begin = tile_begin(tile);
        calls_of<Stored>(tile_begin(tile + 1) - begin)
            .score[units - 1](queries_ + begin * task_.head_dim, keys, task_.block_size, task_.head_dim,
                              scores_ + begin * kScoreStride + at);
      }
      at += units * kUnit;
    }
    const std::size_t end = (tokens + kUnit - 1) / kUnit * kUnit;
    for (std::size_t i = 0; i < vectors_; ++i) {
      const std::size_t seen = task_.first_position + i / task_.group + 1;
      const std::size_t valid = seen > first ? std::min(seen - first, tokens) : 0;
      shrink_[i] = soften(scores_ + i * kScoreStride, valid, end, maxima_[i], totals_[i]);
    }
    add_values(first, tokens);
  }

  void add_values(std::size_t first, std::size_t tokens) {
    SpanValues<Stored> values{};
    values.block_size = task_.block_size;
    values.tokens = tokens;
    for (std::size_t at = 0; at < tokens; at += task_.block_size) {
      values.blocks[at / task_.block_size] = block(first + at) + task_.head_dim * task_.block_size;
    }
    for (std::size_t tile = 0; tile < tiles_; ++tile) {
      const std::size_t begin = tile_begin(tile);
      const TileCalls<Stored>& calls = calls_of<Stored>(tile_begin(tile + 1) - begin);
      const std::size_t most = units_of(tile_begin(1));
      for (std::size_t from = 0; from < task_.head_dim;) {
        const std::size_t units = from + kUnit < task_.head_dim ? most : 1;
        calls.value[units - 1](scores_ + begin * kScoreStride, shrink_ + begin, values, task_.head_dim, from,
                               sums_ + begin * task_.head_dim + from);
        from += units * kUnit;
      }
    }
  }

  void write() {
    for (std::size_t i = 0; i < vectors_; ++i) {
      float* const out = task_.out + i / task_.group * task_.out_stride + i % task_.group * task_.head_dim;
      for (std::size_t d = 0; d < task_.head_dim; ++d) out[d] = sums_[i * task_.head_dim + d] / totals_[i];
    }
  }

  const AttentionTask& task_;
  const Number* cache_;
  std::size_t vectors_;
  std::size_t tiles_;
  float* queries_;
  float* sums_;
  float* scores_;
  float* maxima_;
  float* totals_;
  float* shrink_;
};

void attend_dispatched(const AttentionTask& task) {
  switch (task.type) {
    case KvType::kBf16:
      return Attention<StoredBf16>(task).run();
    case KvType::kF16:
      return Attention<StoredF16>(task).run();
    case KvType::kF32:
      return Attention<StoredF32>(task).run();
  }
}

}  // namespace kvist::engine::cpu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvist::engine::cpu::kernels {

HWY_EXPORT(attend_dispatched);

void attend(const AttentionTask& task) {
  HWY_DYNAMIC_DISPATCH(attend_dispatched)(task);
}

std::size_t attention_scratch(std::size_t head_dim, std::size_t group) {
  // Queries and sums, scores, maxima, totals and factors of each query vector.
  return std::max(kAttentionRows, group) * (2 * head_dim + kAttentionScores + 3);
}

}  // namespace kvist::engine::cpu::kernels
#endif
