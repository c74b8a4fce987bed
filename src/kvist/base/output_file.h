// Files that become visible only when they are complete.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "kvist/base/error.h"

namespace kvist {

/// Written to a temporary file beside its path and renamed, so that readers never see an incomplete file. An existing
/// path that is not a regular file (a pipe, /dev/stdout) is written in place.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  void append(const std::string& text) { file_ << text; }
  /// Renames the file and returns its path.
  [[nodiscard]] Result<std::string> finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::ofstream file_;
};

/// Writes a complete file; returns its path.
[[nodiscard]] Result<std::string> write_file(const std::filesystem::path& path, const std::string& text);

/// Whether write_file() could write there, leaving nothing behind: for commands that compute for long before they write. An
/// empty path, for a file that was not asked for, is fine. Errors: as write_file()'s.
[[nodiscard]] Result<void> check_writable(const std::filesystem::path& path);

}  // namespace kvist
