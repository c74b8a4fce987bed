#include "kvist/engine/cpu/packed_matrix.h"

#include <cstring>

#include "kvist/base/check.h"
#include "kvist/engine/cpu/bf16.h"
#include "kvist/engine/cpu/kernels/kernels.h"

namespace kvist::engine::cpu {
namespace {

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Writes one row of a tensor, `stride` numbers apart. The types are chosen outside of the loop: loading a model spends
/// its time here.
template <class From, class To, class Convert>
void scatter(const std::byte* from, std::size_t n, To* to, std::size_t stride, Convert convert) {
  for (std::size_t i = 0; i < n; ++i) to[i * stride] = convert(read<From>(from + i * sizeof(From)));
}

void scatter_row(const TensorView& source, const std::byte* from, std::size_t n, float* to, std::size_t stride) {
  switch (source.type) {
    case DataType::kF32:
      return scatter<float>(from, n, to, stride, [](float x) { return x; });
    case DataType::kF16:
      return scatter<std::uint16_t>(from, n, to, stride, float_of_f16);
    default:
      return scatter<Bf16>(from, n, to, stride, float_of_bf16);
  }
}

void scatter_row(const TensorView& source, const std::byte* from, std::size_t n, Bf16* to, std::size_t stride) {
  switch (source.type) {
    case DataType::kF32:
      return scatter<float>(from, n, to, stride, bf16_of_float);
    case DataType::kF16:
      return scatter<std::uint16_t>(from, n, to, stride,
                                    [](std::uint16_t x) { return bf16_of_float(float_of_f16(x)); });
    default:
      return scatter<Bf16>(from, n, to, stride, [](Bf16 x) { return x; });
  }
}

std::size_t panels_of(std::size_t columns) {
  return (columns + kernels::panel_columns() - 1) / kernels::panel_columns();
}

}  // namespace

float number_at(const TensorView& tensor, std::size_t index) {
  const std::byte* const at = tensor.bytes.data() + index * bytes_of(tensor.type);
  switch (tensor.type) {
    case DataType::kF32:
      return read<float>(at);
    case DataType::kF16:
      return float_of_f16(read<std::uint16_t>(at));
    default:
      return float_of_bf16(read<Bf16>(at));
  }
}

PackedMatrix::PackedMatrix(std::size_t columns, std::size_t depth, DataType type)
    : memory_(bytes_for(columns, depth, type)),
      type_(type),
      columns_(columns),
      depth_(depth),
      panel_columns_(kernels::panel_columns()) {
  KVIST_CHECK(type == DataType::kF32 || type == DataType::kBf16, "weights are F32 or BF16");
}

std::uint64_t PackedMatrix::bytes_for(std::size_t columns, std::size_t depth, DataType type) {
  return std::uint64_t{panels_of(columns)} * kernels::panel_columns() * depth * bytes_of(type);
}

std::size_t PackedMatrix::panels() const {
  return panels_of(columns_);
}

std::size_t PackedMatrix::index_of(std::size_t column, std::size_t depth_index) const {
  const std::size_t row = (column / panel_columns_ * depth_ + depth_index) * panel_columns_;
  const std::size_t within = column % panel_columns_;
  if (type_ == DataType::kF32) return row + within;
  const std::size_t lanes = panel_columns_ / 2;
  return row + (within < lanes ? 2 * within : 2 * (within - lanes) + 1);
}

void PackedMatrix::place(const TensorView& source, std::size_t first_column, std::size_t panel_step, ThreadPool& pool) {
  KVIST_CHECK(source.shape.size() == 2 && source.shape[1] == depth_, "a matrix of this depth");
  KVIST_CHECK(panel_step == 1 || first_column % panel_columns_ == 0, "alternating matrices begin with a panel");
  const std::size_t rows = source.shape[0];
  const auto column_of = [&](std::size_t row) {
    return panel_step == 1 ? first_column + row
                           : first_column + row / panel_columns_ * panel_step * panel_columns_ + row % panel_columns_;
  };
  KVIST_CHECK(rows == 0 || column_of(rows - 1) < panels() * panel_columns_, "columns of this matrix");
  const std::size_t row_bytes = depth_ * bytes_of(source.type);
  pool.run([&](unsigned thread) {
    const Range part = part_of(rows, thread, pool.threads());
    for (std::size_t row = part.begin; row < part.end; ++row) {
      const std::byte* const from = source.bytes.data() + row * row_bytes;
      const std::size_t at = index_of(column_of(row), 0);
      if (type_ == DataType::kF32) {
        scatter_row(source, from, depth_, memory_.as<float>().data() + at, panel_columns_);
      } else {
        scatter_row(source, from, depth_, memory_.as<Bf16>().data() + at, panel_columns_);
      }
    }
  });
}

void PackedMatrix::row(std::size_t column, float* out) const {
  const std::size_t at = index_of(column, 0);
  if (type_ == DataType::kF32) {
    const float* const from = memory_.as<float>().data() + at;
    for (std::size_t i = 0; i < depth_; ++i) out[i] = from[i * panel_columns_];
  } else {
    const Bf16* const from = memory_.as<Bf16>().data() + at;
    for (std::size_t i = 0; i < depth_; ++i) out[i] = float_of_bf16(from[i * panel_columns_]);
  }
}

}  // namespace kvist::engine::cpu
