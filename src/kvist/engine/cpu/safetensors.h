// The safetensors format: a JSON header that says where each tensor lies, and the tensors' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::engine::cpu {

/// How the numbers of a tensor are stored. The model computes with the first three; tensors of the others may be in a
/// file but are not read.
enum class DataType : std::uint8_t {
  kF32,
  kF16,
  kBf16,
  kF64,
  kI64,
  kU64,
  kI32,
  kU32,
  kI16,
  kU16,
  kI8,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2,
};

/// The format's name of the type: "BF16".
[[nodiscard]] std::string_view to_string(DataType type);
/// Bytes of one number.
[[nodiscard]] std::size_t bytes_of(DataType type);

/// One tensor of a file: begin and end count bytes from the file's start.
struct TensorEntry {
  std::string name;
  DataType type = DataType::kF32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Headers beyond this are refused before they are parsed, so that a hostile one cannot make the parser take gigabytes.
/// The format allows 100,000,000 bytes; the largest Llama checkpoints have about 200,000 per file.
inline constexpr std::uint64_t kMaxHeaderBytes = 16U << 20;
/// More dimensions than any tensor of any model has.
inline constexpr std::size_t kMaxDimensions = 8;

/// Reads the header of a whole file's bytes; entries sorted by name. `name` is the file, for messages.
///
/// Format (https://github.com/huggingface/safetensors): u64 little-endian header length, that many bytes of JSON, data.
/// Each key of the object but `__metadata__` is a tensor: {dtype, shape, data_offsets: [begin, end)}, offsets counted
/// from the start of the data. Checked: no name twice; shape times size of a number, without overflow, is end - begin;
/// the tensors cover the data without holes or overlap and end at the file's end. Errors: kCorrupt, naming file and
/// tensor.
[[nodiscard]] Result<std::vector<TensorEntry>> read_safetensors_header(std::span<const std::byte> file,
                                                                       std::string_view name);

}  // namespace kvist::engine::cpu
