// A weight matrix as the kernels read it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvist/engine/cpu/aligned_buffer.h"
#include "kvist/engine/cpu/checkpoint.h"
#include "kvist/engine/cpu/thread_pool.h"

namespace kvist::engine::cpu {

/// Weights of a linear layer, y = W x with W [columns, depth] as checkpoints have it, in column panels:
///
///   panel p holds the outputs [p C, (p + 1) C), C = kernels panel_columns() = 2 L, L numbers of F32 per vector;
///   within a panel, one row of C numbers per input (depth), all inputs one after another.
///   F32:  the row's numbers in order.
///   BF16: L words of 32 bits; word j has output j in its low half and output L + j in its high half, so that a shift
///         and a mask widen a loaded vector to the row's two vectors of F32.
///
/// The last panel is padded with zeros. Move-only; immutable once placed. Threads: any may read.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  /// All zeros. Requires: kF32 or kBf16.
  PackedMatrix(std::size_t columns, std::size_t depth, DataType type);

  /// The bytes of such a matrix on this machine.
  [[nodiscard]] static std::uint64_t bytes_for(std::size_t columns, std::size_t depth, DataType type);

  /// Puts the rows of `source` [n, depth] at the columns from `first_column` on; with `panel_step` 2 only every second
  /// panel is used, so that two matrices alternate (first_column 0 and panel columns).
  void place(const TensorView& source, std::size_t first_column, std::size_t panel_step, ThreadPool& pool);
  /// One output's weights, depth numbers, widened: an embedding if the matrix is the tied output layer.
  void row(std::size_t column, float* out) const;

  [[nodiscard]] DataType type() const { return type_; }
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::size_t depth() const { return depth_; }
  [[nodiscard]] std::size_t panels() const;
  [[nodiscard]] std::uint64_t bytes() const { return memory_.bytes(); }
  [[nodiscard]] const void* data() const { return memory_.as<std::byte>().data(); }

 private:
  [[nodiscard]] std::size_t index_of(std::size_t column, std::size_t depth_index) const;

  AlignedBuffer memory_;
  DataType type_ = DataType::kF32;
  std::size_t columns_ = 0;
  std::size_t depth_ = 0;
  std::size_t panel_columns_ = 0;
};

/// Number `index` of a tensor in a file, widened. Files are not aligned.
[[nodiscard]] float number_at(const TensorView& tensor, std::size_t index);

}  // namespace kvist::engine::cpu
