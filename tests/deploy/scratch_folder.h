// For tests: a temporary folder, removed at the end.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace kvist::deploy {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string path = testing::TempDir() + "/kvist_deploy_XXXXXX";
    path_ = ::mkdtemp(path.data()) != nullptr ? path : "";
    EXPECT_FALSE(path_.empty());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string path(const std::string& name = "") const {
    return path_ + (name.empty() ? "" : "/" + name);
  }

  /// Writes an executable shell script and returns its path.
  std::string script(const std::string& name, const std::string& body) const {
    const std::string file = path(name);
    std::ofstream(file) << "#!/bin/sh\n" << body;
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }

  [[nodiscard]] std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

}  // namespace kvist::deploy
