// For tests: a folder that is gone afterwards, and safetensors files with any header.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvist::engine::cpu {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string path = testing::TempDir() + "/kvist_cpu_XXXXXX";
    path_ = ::mkdtemp(path.data()) != nullptr ? path : "";
    EXPECT_FALSE(path_.empty());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << content;
  }

 private:
  std::string path_;
};

/// A file's bytes: the length of `header`, `header`, `data`.
inline std::string safetensors(const std::string& header, const std::string& data) {
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(std::uint64_t{header.size()} >> 8 * i & 0xff));
  return out + header + data;
}

}  // namespace kvist::engine::cpu
