#include "kvist/base/input_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "base/scratch_folder.h"

namespace kvist::input_file_test {
namespace {

class InputFile : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path write(const std::string& text) const { return scratch_.write(text); }

  ScratchFolder scratch_;
  const std::filesystem::path& folder_ = scratch_.path();
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
