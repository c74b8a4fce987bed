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

TEST(CheckWritable, SaysBeforehandWhatWritingWouldSay) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "check_writable";
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(check_writable(folder / "new.json").has_value());
  EXPECT_FALSE(std::filesystem::exists(folder / "new.json"));
  EXPECT_TRUE(check_writable("").has_value());
  EXPECT_TRUE(check_writable("/dev/null").has_value());
  EXPECT_TRUE(check_writable("beside.json").has_value());
  const auto in_nothing = check_writable(folder / "none" / "x.json");
  ASSERT_FALSE(in_nothing.has_value());
  EXPECT_EQ(in_nothing.error().message,
            (folder / "none" / "x.json").string() + ": cannot be written: No such file or directory");
  const auto a_folder = check_writable(folder);
  ASSERT_FALSE(a_folder.has_value());
  EXPECT_EQ(a_folder.error().message, folder.string() + ": cannot be written: it is a folder");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvist::output_file_test
