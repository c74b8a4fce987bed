#include "kvist/net/bearer_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

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

TEST_F(BearerKeyTest, AServerAsksForAnyOfSeveral) {
  std::ofstream(path_, std::ios::binary) << "sk-new\r\n\nsk-old \n";
  const auto keys = BearerKeys::read(path_);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->size(), 2U);
  EXPECT_EQ(read_bearer_key(path_).value(), "sk-new");
  EXPECT_TRUE(keys->has("sk-new"));
  EXPECT_TRUE(keys->has("sk-old"));
  for (const char* wrong : {"", "sk-", "sk-newer", "sk-new ", "sk-new\r"}) EXPECT_FALSE(keys->has(wrong)) << wrong;
}

TEST_F(BearerKeyTest, AServersFileHasToHaveSomeAndNotTooMany) {
  const auto problem = [&](std::string_view content) {
    std::ofstream(path_, std::ios::binary) << content;
    const auto keys = BearerKeys::read(path_);
    EXPECT_FALSE(keys) << content;
    return keys ? std::string() : keys.error().message;
  };
  EXPECT_THAT(problem(""), HasSubstr(path_ + ": expected 1 to 64 keys"));
  EXPECT_THAT(problem("\n \n"), HasSubstr("expected 1 to 64 keys"));
  const std::string spaced = problem("sk-1\nsk 2\n");
  EXPECT_THAT(spaced, HasSubstr("line 2"));
  EXPECT_THAT(spaced, Not(HasSubstr("sk 2")));
  std::string many;
  for (int i = 0; i < 65; ++i) many += "sk-" + std::to_string(i) + "\n";
  EXPECT_THAT(problem(many), HasSubstr("expected 1 to 64 keys"));
  std::ofstream(path_, std::ios::binary) << many.substr(0, many.rfind("sk-"));
  EXPECT_EQ(BearerKeys::read(path_).value().size(), 64U);
  std::filesystem::remove(path_);
  EXPECT_EQ(BearerKeys::read(path_).error().code, ErrorCode::kNotFound);
}

TEST(SentKeyTest, IsOfEitherField) {
  const auto sent = [](std::string name, std::string value) {
    Headers headers;
    headers.add(std::move(name), std::move(value));
    return std::string(sent_key(headers));
  };
  EXPECT_EQ(sent("Authorization", "Bearer sk-1"), "sk-1");
  EXPECT_EQ(sent("authorization", "bearer   sk-1"), "sk-1");
  EXPECT_EQ(sent("X-API-Key", "sk-1"), "sk-1");
  EXPECT_EQ(sent("Authorization", "Basic sk-1"), "");
  EXPECT_EQ(sent("Cookie", "sk-1"), "");
}

}  // namespace
}  // namespace kvist::net::bearer_key_test
