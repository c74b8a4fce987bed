#include "kvist/engine/cpu/kernels/targets.h"
//
#include <algorithm>
#include <cstdint>

#include "kvist/engine/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvist/engine/cpu/kernels/matmul.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvist::engine::cpu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Words = hn::ScalableTag<std::uint32_t>;
using Vector = hn::Vec<F32>;

constexpr std::size_t kLanes = hn::MaxLanes(F32());
constexpr std::size_t kColumns = 2 * kLanes;

// A tile is kTileRows rows by one panel: two vectors of sums per row, two of weights and one of x stay in registers. 16
// registers hold 6 rows (12 + 2 + 1), 32 hold 12 (24 + 2 + 1); both give the 8 independent chains or more that two FMA
// units with a latency of 4 want.
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr std::size_t kTileRows = 12;
#else
constexpr std::size_t kTileRows = 6;
#endif
// Rows x depth of x that are packed at once, half of a 512 KiB L2 at most; a panel's part of this depth stays in L1.
constexpr std::size_t kBlockDepth = 256;
constexpr std::size_t kBlockRows = kMatmulScratch / kBlockDepth;

/// One row of a panel in memory, as F32 and as BF16 pairs.
struct F32Row {
  using Number = float;
  static constexpr std::size_t kNumbers = kColumns;
  static HWY_INLINE void load(const float* HWY_RESTRICT at, Vector& low, Vector& high) {
    low = hn::LoadU(F32(), at);
    high = hn::LoadU(F32(), at + kLanes);
  }
};

struct Bf16Row {
  using Number = std::uint32_t;
  static constexpr std::size_t kNumbers = kLanes;
  static HWY_INLINE void load(const std::uint32_t* HWY_RESTRICT at, Vector& low, Vector& high) {
    const auto words = hn::LoadU(Words(), at);
    low = hn::BitCast(F32(), hn::ShiftLeft<16>(words));
    high = hn::BitCast(F32(), hn::And(words, hn::Set(Words(), 0xffff0000U)));
  }
};

/// y[kRows][kPanels panels] (+)= x W over `depth`: x packed as [depth][kRows], panels `panel_stride` numbers apart.
/// Goes on from the sums in y unless `first`.
template <class Row, std::size_t kRows, std::size_t kPanels>
HWY_NOINLINE void tile(const float* HWY_RESTRICT x, const typename Row::Number* HWY_RESTRICT panel,
                       std::size_t panel_stride, std::size_t depth, bool first, float* HWY_RESTRICT y,
                       std::size_t y_stride) {
  constexpr std::size_t kVectors = 2 * kPanels;
  Vector sums[kRows][kVectors];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[r][v] = first ? hn::Zero(F32()) : hn::LoadU(F32(), y + r * y_stride + v * kLanes);
    }
  }
  for (std::size_t k = 0; k < depth; ++k) {
    Vector weights[kVectors];
#pragma GCC unroll 16
    for (std::size_t p = 0; p < kPanels; ++p) Row::load(panel + p * panel_stride, weights[2 * p], weights[2 * p + 1]);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
      const Vector value = hn::Set(F32(), x[r]);
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(value, weights[v], sums[r][v]);
    }
    x += kRows;
    panel += Row::kNumbers;
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], F32(), y + r * y_stride + v * kLanes);
  }
}

template <class Row>
using TileCall = void (*)(const float*, const typename Row::Number*, std::size_t, std::size_t, bool, float*,
                          std::size_t);

/// tile() for a number of rows, by one panel.
template <class Row>
TileCall<Row> tile_of(std::size_t rows) {
  static constexpr TileCall<Row> kCalls[12] = {
      &tile<Row, 1, 1>, &tile<Row, 2, 1>, &tile<Row, 3, 1>, &tile<Row, 4, 1>,  &tile<Row, 5, 1>,  &tile<Row, 6, 1>,
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
      &tile<Row, 7, 1>, &tile<Row, 8, 1>, &tile<Row, 9, 1>, &tile<Row, 10, 1>, &tile<Row, 11, 1>, &tile<Row, 12, 1>,
#endif
  };
  return kCalls[rows - 1];
}

/// The panels of a task and how to step through them.
template <class Row>
struct Panels {
  explicit Panels(const MatmulTask& task)
      : first(static_cast<const typename Row::Number*>(task.weights)), stride(task.depth * Row::kNumbers) {}

  [[nodiscard]] const typename Row::Number* at(std::size_t panel, std::size_t depth) const {
    return first + panel * stride + depth * Row::kNumbers;
  }

  const typename Row::Number* first;
  std::size_t stride;
};

/// Few rows: several panels at a time, so that there are chains enough; x is packed as it comes.
template <class Row, std::size_t kRows, std::size_t kPanels>
void few_rows(const MatmulTask& task, const float* x, std::size_t from, std::size_t depth) {
  const Panels<Row> panels(task);
  std::size_t panel = task.first_panel;
  for (; panel + kPanels <= task.last_panel; panel += kPanels) {
    tile<Row, kRows, kPanels>(x, panels.at(panel, from), panels.stride, depth, from == 0, task.y + panel * kColumns,
                              task.y_stride);
  }
  for (; panel < task.last_panel; ++panel) {
    tile<Row, kRows, 1>(x, panels.at(panel, from), panels.stride, depth, from == 0, task.y + panel * kColumns,
                        task.y_stride);
  }
}

/// The rows of a tile, as even as can be: tile `index` of `tiles` over `rows`.
constexpr std::size_t tile_begin(std::size_t rows, std::size_t index, std::size_t tiles) {
  return index * (rows / tiles) + std::min(index, rows % tiles);
}

void pack_rows(const float* HWY_RESTRICT x, std::size_t stride, std::size_t rows, std::size_t depth,
               float* HWY_RESTRICT out) {
  for (std::size_t k = 0; k < depth; ++k) {
    for (std::size_t r = 0; r < rows; ++r) out[k * rows + r] = x[r * stride + k];
  }
}

/// A block of rows: for each part of the depth x is packed tile by tile, then each panel's part, in L1, meets them all.
template <class Row>
void block_of_rows(const MatmulTask& task, std::size_t first_row, std::size_t rows) {
  const Panels<Row> panels(task);
  const std::size_t tiles = (rows + kTileRows - 1) / kTileRows;
  // A single tile reads each weight once: there the depth is cut only by the scratch.
  const std::size_t step = tiles == 1 ? kMatmulScratch / rows : kBlockDepth;
  for (std::size_t from = 0; from < task.depth; from += step) {
    const std::size_t depth = std::min(step, task.depth - from);
    for (std::size_t t = 0; t < tiles; ++t) {
      const std::size_t begin = tile_begin(rows, t, tiles);
      pack_rows(task.x + (first_row + begin) * task.x_stride + from, task.x_stride,
                tile_begin(rows, t + 1, tiles) - begin, depth, task.scratch + begin * depth);
    }
    if (rows == 2) {
      few_rows<Row, 2, 2>(task, task.scratch, from, depth);
      continue;
    }
    for (std::size_t panel = task.first_panel; panel < task.last_panel; ++panel) {
      for (std::size_t t = 0; t < tiles; ++t) {
        const std::size_t begin = tile_begin(rows, t, tiles);
        tile_of<Row>(tile_begin(rows, t + 1, tiles) - begin)(
            task.scratch + begin * depth, panels.at(panel, from), panels.stride, depth, from == 0,
            task.y + (first_row + begin) * task.y_stride + panel * kColumns, task.y_stride);
      }
    }
  }
}

template <class Row>
void matmul_of(const MatmulTask& task) {
  if (task.rows == 1) return few_rows<Row, 1, 4>(task, task.x, 0, task.depth);
  const std::size_t blocks = (task.rows + kBlockRows - 1) / kBlockRows;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t begin = tile_begin(task.rows, b, blocks);
    block_of_rows<Row>(task, begin, tile_begin(task.rows, b + 1, blocks) - begin);
  }
}

void matmul_dispatched(const MatmulTask& task) {
  if (task.bf16) {
    matmul_of<Bf16Row>(task);
  } else {
    matmul_of<F32Row>(task);
  }
}

std::size_t panel_columns_dispatched() {
  return kColumns;
}

}  // namespace kvist::engine::cpu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvist::engine::cpu::kernels {

HWY_EXPORT(matmul_dispatched);
HWY_EXPORT(panel_columns_dispatched);

void matmul(const MatmulTask& task) {
  HWY_DYNAMIC_DISPATCH(matmul_dispatched)(task);
}

std::size_t panel_columns() {
  return HWY_DYNAMIC_DISPATCH(panel_columns_dispatched)();
}

}  // namespace kvist::engine::cpu::kernels
#endif
