// Files that become visible only when they are complete.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "kvist/base/error.h"

namespace kvist {

/// The file is written under another name in the same folder and renamed, so that a reader never sees half of it.
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

[[nodiscard]] Result<std::string> write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace kvist
