#include "kvist/engine/cpu/kernels/targets.h"
//
#include <algorithm>
#include <cstdint>

#include "kvist/engine/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvist/engine/cpu/kernels/matmul.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
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
// With few tiles, memory is the bound: longer runs of a panel, of which L2 keeps one for the tiles after the first.
constexpr std::size_t kFewRows = 32;
constexpr std::size_t kFewRowsDepth = 1024;
// Panels at a time for one and two rows. A row of a panel takes 4 cycles, the latency of its sums: with the widest
// vectors that is 16 bytes per cycle, more than memory delivers, so panels are read one after the other as one stream.
constexpr std::size_t kFewRowsPanels = kLanes >= 16 ? 1 : 2;
constexpr std::size_t kAheadBytes = 8192;  // twice what one core reads during one memory latency

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

/// What a tile prefetches for the next one: one line per input, from `stream` on, and the sums at `y`. Reading from
/// memory then overlaps with computing; the hardware's own prefetching stops at every new panel.
struct Ahead {
  const char* stream;
  const float* y;
};

/// y[kRows][kPanels panels] (+)= x W over `depth`: x packed as [depth][kRows], panels `panel_stride` numbers apart.
/// Adds to the sums in y unless `first`.
template <class Row, std::size_t kRows, std::size_t kPanels>
HWY_NOINLINE void tile(const float* HWY_RESTRICT x, const typename Row::Number* HWY_RESTRICT panel,
                       std::size_t panel_stride, std::size_t depth, bool first, float* HWY_RESTRICT y,
                       std::size_t y_stride, Ahead ahead) {
  constexpr std::size_t kVectors = 2 * kPanels;
  Vector sums[kRows][kVectors];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[r][v] = first ? hn::Zero(F32()) : hn::LoadU(F32(), y + r * y_stride + v * kLanes);
    }
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
    hwy::Prefetch(ahead.y + r * y_stride);
    if (kColumns > 16) hwy::Prefetch(ahead.y + r * y_stride + 16);
  }
  for (std::size_t k = 0; k < depth; ++k) {
#pragma GCC unroll 16
    for (std::size_t p = 0; p < kPanels; ++p) {
      hwy::Prefetch(ahead.stream + p * panel_stride * sizeof(typename Row::Number));
    }
    ahead.stream += Row::kNumbers * sizeof(typename Row::Number);
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
                          std::size_t, Ahead);

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

/// Where part `index` of `parts` of some rows begins; the parts are as even as can be.
constexpr std::size_t part_begin(std::size_t rows, std::size_t index, std::size_t parts) {
  return index * (rows / parts) + std::min(index, rows % parts);
}

/// Rows of a task for a few tiles, with their part of x packed, to be multiplied with panel after panel.
template <class Row>
class PackedRows {
 public:
  /// Rows [first_row, first_row + rows), inputs [from, from + depth) of the task.
  PackedRows(const MatmulTask& task, std::size_t first_row, std::size_t rows, std::size_t from, std::size_t depth)
      : task_(task),
        panels_(task),
        first_row_(first_row),
        rows_(rows),
        tiles_((rows + kTileRows - 1) / kTileRows),
        from_(from),
        depth_(depth) {}

  void pack() {
    for (std::size_t t = 0; t < tiles_; ++t) {
      const float* HWY_RESTRICT x = task_.x + (first_row_ + begin(t)) * task_.x_stride + from_;
      const std::size_t rows = begin(t + 1) - begin(t);
      float* HWY_RESTRICT out = packed(t);
      for (std::size_t k = 0; k < depth_; ++k) {
        for (std::size_t r = 0; r < rows; ++r) out[k * rows + r] = x[r * task_.x_stride + k];
      }
    }
  }

  void multiply() {
    for (std::size_t panel = task_.first_panel; panel < task_.last_panel; ++panel) {
      for (std::size_t t = 0; t < tiles_; ++t) {
        tile_of<Row>(begin(t + 1) - begin(t))(packed(t), panels_.at(panel, from_), panels_.stride, depth_, from_ == 0,
                                              sums(t, panel), task_.y_stride, ahead(t, panel));
      }
    }
  }

  /// The same for kRows rows, one or two, which are one tile: several panels at a time, if needed for enough
  /// independent chains.
  template <std::size_t kRows>
  void multiply_few(const float* x) {
    std::size_t panel = task_.first_panel;
    for (; panel + kFewRowsPanels <= task_.last_panel; panel += kFewRowsPanels) {
      tile<Row, kRows, kFewRowsPanels>(x, panels_.at(panel, from_), panels_.stride, depth_, from_ == 0, sums(0, panel),
                                       task_.y_stride, ahead(0, panel));
    }
    if (panel < task_.last_panel) {
      tile<Row, kRows, 1>(x, panels_.at(panel, from_), panels_.stride, depth_, from_ == 0, sums(0, panel),
                          task_.y_stride, ahead(0, panel));
    }
  }

 private:
  /// The first row of tile `t`; the tiles are as even as can be.
  [[nodiscard]] std::size_t begin(std::size_t t) const { return part_begin(rows_, t, tiles_); }
  [[nodiscard]] float* packed(std::size_t t) const { return task_.scratch + begin(t) * depth_; }
  [[nodiscard]] float* sums(std::size_t t, std::size_t panel) const {
    return task_.y + (first_row_ + begin(t)) * task_.y_stride + panel * kColumns;
  }

  [[nodiscard]] Ahead ahead(std::size_t t, std::size_t panel) const {
    if (tiles_ == 1) {
      return {reinterpret_cast<const char*>(panels_.at(panel, from_)) + kAheadBytes, sums(0, panel + 1)};
    }
    if (t + 1 < tiles_) return {reinterpret_cast<const char*>(packed(t + 1)), sums(t + 1, panel)};
    return {reinterpret_cast<const char*>(panels_.at(panel + 1, from_)), sums(0, panel + 1)};
  }

  const MatmulTask& task_;
  Panels<Row> panels_;
  std::size_t first_row_;
  std::size_t rows_;
  std::size_t tiles_;
  std::size_t from_;
  std::size_t depth_;
};

/// How much of the depth is taken at once, by the tiles of a block of rows.
std::size_t depth_step(std::size_t rows) {
  if (rows <= kTileRows) return kMatmulScratch / rows;  // each weight is read once: only the scratch limits it
  return rows <= kFewRows ? kFewRowsDepth : kBlockDepth;
}

template <class Row>
void matmul_of(const MatmulTask& task) {
  if (task.rows == 1) {  // already in packed order
    return PackedRows<Row>(task, 0, 1, 0, task.depth).template multiply_few<1>(task.x);
  }
  const std::size_t blocks = (task.rows + kBlockRows - 1) / kBlockRows;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t first_row = part_begin(task.rows, b, blocks);
    const std::size_t rows = part_begin(task.rows, b + 1, blocks) - first_row;
    const std::size_t step = depth_step(rows);
    for (std::size_t from = 0; from < task.depth; from += step) {
      PackedRows<Row> packed(task, first_row, rows, from, std::min(step, task.depth - from));
      if (!task.packed) packed.pack();
      if (task.rows == 2) {
        packed.template multiply_few<2>(task.scratch);
      } else {
        packed.multiply();
      }
    }
  }
}

void matmul_dispatched(const MatmulTask& task) {
  if (task.bf16) {
    matmul_of<Bf16Row>(task);
  } else {
    matmul_of<F32Row>(task);
  }
}

bool packs_once_dispatched(std::size_t rows, std::size_t depth) {
  return rows <= kTileRows && rows * depth <= kMatmulScratch;
}

std::size_t panel_columns_dispatched() {
  return kColumns;
}

}  // namespace kvist::engine::cpu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvist::engine::cpu::kernels {

HWY_EXPORT(matmul_dispatched);
HWY_EXPORT(packs_once_dispatched);
HWY_EXPORT(panel_columns_dispatched);

void matmul(const MatmulTask& task) {
  HWY_DYNAMIC_DISPATCH(matmul_dispatched)(task);
}

bool packs_once(std::size_t rows, std::size_t depth) {
  return HWY_DYNAMIC_DISPATCH(packs_once_dispatched)(rows, depth);
}

std::size_t panel_columns() {
  return HWY_DYNAMIC_DISPATCH(panel_columns_dispatched)();
}

}  // namespace kvist::engine::cpu::kernels
#endif
