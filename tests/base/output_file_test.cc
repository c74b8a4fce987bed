#include "kvist/base/output_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace kvist::output_file_test {
namespace {

TEST(OutputFile, AppearsWholeAtItsPlace) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "kvist_output_file_test.txt";
  OutputFile file(path);
  file.append("one ");
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing to see before it is whole";
  file.append("two");
  EXPECT_EQ(file.finish().value(), path.string());
  EXPECT_EQ(write_file(path, "three").value(), path.string()) << "in place of the old one";
  std::ifstream read(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(read), {}), "three");
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".partial"));
  std::filesystem::remove(path);
}

TEST(OutputFile, WhatIsNoRegularFileIsWrittenWhereItIs) {
  EXPECT_EQ(write_file("/dev/null", "gone").value(), "/dev/null");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(OutputFile, SaysWhatCannotBeWritten) {
  const auto written = write_file("/nonexistent/folder/file", "x");
  ASSERT_FALSE(written.has_value());
  EXPECT_TRUE(written.error().message.starts_with("/nonexistent/folder/file: cannot be written: "));
}

}  // namespace
}  // namespace kvist::output_file_test
