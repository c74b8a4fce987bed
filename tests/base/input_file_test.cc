#include "kvist/base/input_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace kvist::input_file_test {
namespace {

class InputFile : public testing::Test {
 protected:
  InputFile() { std::filesystem::create_directories(folder_); }
  ~InputFile() override { std::filesystem::remove_all(folder_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::filesystem::path write(const std::string& text) {
    const auto path = folder_ / "file";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "kvist-input-file";
};

TEST_F(InputFile, IsReadWholeUpToItsBound) {
  EXPECT_EQ(read_file(write(""), 0), "");
  std::string text(200'000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i % 251);
  EXPECT_EQ(read_file(write(text), text.size()), text);
  const auto cut = read_file(write(text), text.size() - 1);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(cut.error().message, (folder_ / "file").string() + ": more than 199999 bytes");
}

TEST_F(InputFile, SaysWhyItCannotBeRead) {
  const auto missing = read_file(folder_ / "none", 10);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message, (folder_ / "none").string() + ": No such file or directory");
  const auto folder = read_file(folder_, 10);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, ErrorCode::kUnavailable);
}

TEST_F(InputFile, ADeviceWithoutEndDoesNotFillTheMemory) {
  const auto endless = read_file("/dev/zero", 1'000'000);
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, ErrorCode::kTooLarge);
}

TEST_F(InputFile, AStreamGivesWhatItStillHas) {
  std::istringstream stream("one two");
  std::string first;
  stream >> first;
  EXPECT_EQ(read_stream(stream, "a stream", 4), " two");
}

}  // namespace
}  // namespace kvist::input_file_test
