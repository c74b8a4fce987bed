// A file's bytes as memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kvist/base/error.h"

namespace kvist::engine::cpu {

/// A whole file mapped for reading. Move-only. Requires: the file is not truncated while it is mapped; reading past its
/// new end kills the process (SIGBUS), as with every mapped file.
class MappedFile {
 public:
  /// Errors: kNotFound, or kInternal with the system's reason.
  [[nodiscard]] static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Lets the system reclaim the pages of `part`, a part of bytes(); they can be read again.
  static void forget(std::span<const std::byte> part);

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kvist::engine::cpu
