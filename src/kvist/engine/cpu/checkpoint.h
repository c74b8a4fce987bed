// The tensors of a model directory, in one file or in shards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/engine/cpu/mapped_file.h"
#include "kvist/engine/cpu/safetensors.h"

namespace kvist::engine::cpu {

/// A tensor's numbers, row by row, in the mapped file: not aligned. Valid as long as its checkpoint lives.
struct TensorView {
  DataType type = DataType::kF32;
  std::span<const std::uint64_t> shape;
  std::span<const std::byte> bytes;
};

/// More files than any checkpoint has; the largest published ones have about 200.
inline constexpr std::size_t kMaxShards = 1024;

/// `model.safetensors`, or the files that `model.safetensors.index.json` names, mapped. Move-only, immutable: any
/// thread may read.
class Checkpoint {
 public:
  /// Opens the files of `directory` and reads their headers. Errors: kNotFound, kCorrupt, with file and tensor.
  [[nodiscard]] static Result<Checkpoint> open(const std::string& directory);

  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The tensor of this name, which must have this shape and be F32, F16 or BF16. Errors: kNotFound, kCorrupt (wrong
  /// shape), kUnsupported (other types), each with what was expected.
  [[nodiscard]] Result<TensorView> tensor(std::string_view name, std::span<const std::uint64_t> shape) const;

  [[nodiscard]] std::uint64_t file_bytes() const;
  [[nodiscard]] std::size_t tensors() const { return entries_.size(); }

 private:
  struct Shard {
    std::string name;
    MappedFile file;
  };
  struct Entry {
    TensorEntry tensor;
    std::size_t shard = 0;
  };

  [[nodiscard]] const Entry* find(std::string_view name) const;
  Result<void> add_shard(const std::string& directory, const std::string& name);
  Result<void> open_index(const std::string& directory, const MappedFile& index);

  std::vector<Shard> shards_;
  std::vector<Entry> entries_;  // by name
};

}  // namespace kvist::engine::cpu
