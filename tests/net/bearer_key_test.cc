#include "kvist/net/bearer_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace kvist::net::bearer_key_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BearerKeyTest : public ::testing::Test {
 protected:
  ~BearerKeyTest() override { std::filesystem::remove(path_); }

  Result<std::string> read(std::string_view content) {
    std::ofstream(path_, std::ios::binary) << content;
    return read_bearer_key(path_);
  }

  std::string path_ = std::filesystem::temp_directory_path() / ("bearer-key-" + std::to_string(::getpid()));
};

TEST_F(BearerKeyTest, IsTheFirstLine) {
  EXPECT_EQ(read("sk-1").value(), "sk-1");
  EXPECT_EQ(read("sk-2 \r\nanother\n").value(), "sk-2");
  EXPECT_EQ(read(std::string(4'096, 'k') + "\n").value().size(), 4'096);
}

TEST_F(BearerKeyTest, WhatCannotStandInAHeaderIsRefusedWithoutBeingTold) {
  for (const std::string& content : {std::string(), std::string("\nsk-1"), std::string("sk 1"), std::string("s\x01k"),
                                     std::string("s\xc3\xa4k"), std::string(4'097, 'k')}) {
    const auto key = read(content);
    ASSERT_FALSE(key) << content;
    EXPECT_EQ(key.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(key.error().message, HasSubstr(path_));
    if (content.size() > 2) {
      EXPECT_THAT(key.error().message, Not(HasSubstr(content)));
    }
  }
  std::filesystem::remove(path_);
  EXPECT_EQ(read_bearer_key(path_).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvist::net::bearer_key_test
