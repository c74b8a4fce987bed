#include "kvist/base/unpacked_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/scratch_folder.h"

namespace kvist::unpacked_file_test {
namespace {

using ::testing::HasSubstr;

// What gzip makes of "one\n" and of "two\n".
constexpr std::array<unsigned char, 24> kOne = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0xcf,
                                                0x4b, 0xe5, 0x02, 0x00, 0x9f, 0xa8, 0x17, 0xf8, 0x04, 0x00, 0x00, 0x00};
constexpr std::array<unsigned char, 24> kTwo = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x2b, 0x29,
                                                0xcf, 0xe7, 0x02, 0x00, 0x74, 0x08, 0x17, 0x96, 0x04, 0x00, 0x00, 0x00};

std::string text(std::initializer_list<std::array<unsigned char, 24>> members) {
  std::string bytes;
  for (const auto& member : members) bytes.append(member.begin(), member.end());
  return bytes;
}

class UnpackedFiles : public testing::Test {
 protected:
  /// What a file of these bytes is read as, in pieces of three.
  Result<std::string> read(const std::string& bytes) {
    KVIST_TRY(UnpackedFile file, UnpackedFile::open(folder_.write(bytes)));
    std::string all;
    std::array<char, 3> piece{};
    for (std::size_t count = piece.size(); count == piece.size();) {
      KVIST_TRY(count, file.read(piece));
      all.append(piece.data(), count);
    }
    return all;
  }

  ScratchFolder folder_;
};

TEST_F(UnpackedFiles, AreReadAsTheyAreOrAsWhatWasPacked) {
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read("plain text\n"), "plain text\n");
  EXPECT_EQ(read("\x1f"), "\x1f");
  EXPECT_EQ(read(text({kOne})), "one\n");
  EXPECT_EQ(read(text({kOne, kTwo, kOne})), "one\ntwo\none\n");
}

TEST_F(UnpackedFiles, SayWhatIsWrongWithThem) {
  EXPECT_EQ(UnpackedFile::open(folder_.path() / "none").error().code, ErrorCode::kNotFound);
  for (std::size_t kept = kOne.size() + 11; kept < 2 * kOne.size(); ++kept) {
    const auto cut = read(text({kOne, kTwo}).substr(0, kept));
    ASSERT_FALSE(cut.has_value()) << kept;
    EXPECT_EQ(cut.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(cut.error().message, HasSubstr("cut off"));
  }
  std::string damaged = text({kOne});
  damaged[16] = '\0';  // of the checksum
  EXPECT_THAT(read(damaged).error().message, HasSubstr("damaged"));
}

}  // namespace
}  // namespace kvist::unpacked_file_test
