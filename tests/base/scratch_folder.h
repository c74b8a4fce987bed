// For tests: a temporary folder, removed at the end.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvist {

/// A folder of this object's own: tests of one fixture run at the same time, each in a process of its own.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string path = testing::TempDir() + "/kvist_base_XXXXXX";
    path_ = ::mkdtemp(path.data()) != nullptr ? path : "";
    EXPECT_FALSE(path_.empty());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Writes the file `file` anew and returns its path.
  [[nodiscard]] std::filesystem::path write(const std::string& bytes) const {
    const auto path = path_ / "file";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace kvist
