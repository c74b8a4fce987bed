// Files that become visible only when they are complete.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "kvist/base/error.h"

namespace kvist {

/// Written beside its place and moved there: a reader never sees half a report. What is there and no regular file (a
/// pipe, /dev/stdout) is written where it is.
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

/// A whole file; its path.
[[nodiscard]] Result<std::string> write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace kvist
