// Runs commands in this process, with a folder for their files.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kvist/cli/main.h"

namespace kvist::cli {

/// The result of a command: exit status and both streams.
struct Ran {
  int status = 0;
  std::string out;
  std::string err;
};

inline Ran kvist(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "kvist");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ran ran;
  ran.status = run(static_cast<int>(arguments.size()), argv.data());
  ran.out = testing::internal::GetCapturedStdout();
  ran.err = testing::internal::GetCapturedStderr();
  return ran;
}

/// A test with a folder of its own, removed at its end.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    std::string path = testing::TempDir() + "/kvist_cli_XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }

  std::string folder_;
};

}  // namespace kvist::cli
