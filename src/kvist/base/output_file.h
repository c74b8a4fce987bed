// Files that appear whole.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "kvist/base/error.h"

namespace kvist {

/// Written beside its place and moved there: a reader never sees half a report.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  void append(const std::string& text) { file_ << text; }
  /// Moves it to its place and returns that.
  [[nodiscard]] Result<std::string> finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::ofstream file_;
};

[[nodiscard]] Result<std::string> write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace kvist
