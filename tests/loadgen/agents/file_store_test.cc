#include "kvist/loadgen/agents/file_store.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

namespace kvist::loadgen::file_store_test {
namespace {

using ::testing::HasSubstr;

class FileStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("files-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(FileStoreTest, AFileComesInPartsAndIsThereWhenItsDigestIsRight) {
  FileStore store(folder_);
  const std::string text = "a text in two parts";
  const net::Sha256 digest = net::sha256(text);
  EXPECT_FALSE(store.state(digest).complete);
  auto state = store.add(digest, 0, text.size(), text.substr(0, 7));
  ASSERT_TRUE(state.has_value()) << state.error().message;
  EXPECT_EQ(state->bytes, 7U);
  EXPECT_FALSE(FileStore::path(folder_, digest).has_value());
  EXPECT_THAT(store.add(digest, 6, text.size(), "x").error().message, HasSubstr("there are 7"));
  EXPECT_THAT(store.add(digest, 7, text.size() + 1, "x").error().message, HasSubstr("the file has 19"));
  state = store.add(digest, 7, text.size(), text.substr(7));
  ASSERT_TRUE(state.has_value()) << state.error().message;
  EXPECT_TRUE(state->complete);
  std::ostringstream content;
  content << std::ifstream(FileStore::path(folder_, digest).value()).rdbuf();
  EXPECT_EQ(content.str(), text);
  EXPECT_TRUE(store.add(digest, 0, 1, "z")->complete);  // it is there already
  store.clear();
  EXPECT_FALSE(FileStore::path(folder_, digest).has_value());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(FileStoreTest, AnotherContentIsForgotten) {
  FileStore store(folder_);
  const net::Sha256 digest = net::sha256("what was meant");
  EXPECT_THAT(store.add(digest, 0, 5, "other").error().message, HasSubstr("another digest"));
  EXPECT_EQ(store.state(digest).bytes, 0U);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_TRUE(store.add(net::sha256(""), 0, 0, "")->complete);
}

TEST_F(FileStoreTest, RoomIsBoundedByWhatWasPromised) {
  FileStore store(folder_, 100);
  EXPECT_TRUE(store.add(net::sha256("a"), 0, 60, "1").has_value());
  const auto refused = store.add(net::sha256("b"), 0, 41, "1");
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(store.add(net::sha256("b"), 0, 40, "1").has_value());
  EXPECT_EQ(store.add(net::sha256("c"), 0, ~std::uint64_t{0}, "1").error().code, ErrorCode::kResourceExhausted);
  store.clear();
  EXPECT_TRUE(store.add(net::sha256("b"), 0, 41, "1").has_value());
}

}  // namespace
}  // namespace kvist::loadgen::file_store_test
