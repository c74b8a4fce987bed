// Files that are read piece by piece, and unpacked if they were packed by gzip.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "kvist/base/error.h"

namespace kvist {

/// A file's bytes in their order. One that begins as gzip's files do is unpacked on the way, all of its members, and
/// any other is read as it is. Threads: one.
class UnpackedFile {
 public:
  /// Errors, which name the path: kNotFound, it cannot be opened.
  [[nodiscard]] static Result<UnpackedFile> open(const std::filesystem::path& path);

  /// Fills `bytes` from their beginning; fewer than asked for only at the end. Errors, which name the path: kCorrupt,
  /// what is packed is damaged or ends early; kUnavailable, it cannot be read.
  [[nodiscard]] Result<std::size_t> read(std::span<char> bytes);

 private:
  struct Close {
    void operator()(void* file) const;
  };
  UnpackedFile(std::string name, void* file) : name_(std::move(name)), file_(file) {}

  std::string name_;
  std::unique_ptr<void, Close> file_;  // zlib's, whose header stays out of this one
};

/// All bytes of a file, unpacked. Errors: those of UnpackedFile; kTooLarge, it has more than `most_bytes`.
[[nodiscard]] Result<std::string> read_unpacked(const std::filesystem::path& path, std::size_t most_bytes);

}  // namespace kvist
